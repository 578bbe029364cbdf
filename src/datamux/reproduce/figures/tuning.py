"""What `datamux tune` finds on four tasks: the table of everything that was timed, what we aimed at, and the plot."""

from pathlib import Path
from typing import Any

from datamux.evaluate.plots import draw_frontier
from datamux.reproduce.catalogue.tune import AIMS
from datamux.reproduce.records import Groups, Record
from datamux.reproduce.tables import TITLES, missed, paragraphs, table

ABOUT = paragraphs(
    "## The fastest that is good enough: `datamux tune`",
    "One command per task, with a fine-tuned MiniLM as the reference, which all contenders learn from. Losses and "
    "throughput are against the reference in torch, in fp32, at its best batch size. All finalists were timed in turn "
    "in one run, from texts to answers. The rows that choose were never trained on, and the test rows played no part "
    "in the search.",
    "The chosen model is the best of many on the rows that choose, so its loss there is a little flattered; its loss "
    "on the test rows is not.",
)
TITLES_OF_AIMS = [
    "task",
    "reference, test",
    "known before",
    "aim",
    "chosen",
    "measured",
    "",
    "lost on the test rows (95%)",
]
TITLES_OF_ROWS = ["", "score", "points lost (95%)", "texts/s", "against the reference (lowest to highest)", ""]


def tuning_section(groups: Groups) -> list[str]:
    """The aims of all tasks in one table, then task by task everything that was timed."""
    records = {task: records[0] for task, records in groups.items()}
    lines = [*ABOUT, *table(TITLES_OF_AIMS, [_aim(task, record) for task, record in records.items()]), ""]
    for task, record in records.items():
        lines += [
            f"### Tuned: {TITLES[task].partition(',')[0]}",
            "",
            f"![Accuracy against throughput](tune-{task}.png)",
            "",
        ]
        lines += paragraphs(" ".join(record["recommendation"]), record["tenfold"], _data(task, record))
        lines += paragraphs(
            *(f"{note[0].upper()}{note[1:]}." for note in record["notes"] if note.startswith("warning:"))
        )
        lines += [*table(TITLES_OF_ROWS, [_row(row) for row in _timed(record)]), ""]
        lines += _on_test_rows(record)
    return lines[:-1]


def _aim(task: str, record: Record) -> list[object]:
    aim, chosen = AIMS[task], next(row for row in record["results"] if row["chosen"])
    tests = {row["name"]: row for row in record["test_results"]}
    best = tests[chosen["name"]]
    known = f"{aim.score:g} {aim.scored_on}"
    found = f"{chosen['ratio']:.1f}x" if record["met"] else "nothing"
    verdict = missed(aim.speed - chosen["ratio"], 1, "x") if record["met"] else "missed"
    lost = f"{best['drop']:+.1f} ({best['drop_low']:+.1f} to {best['drop_high']:+.1f})"
    reference = f"{record['test_results'][0]['score']:.1f}"
    return [task, reference, known, f"{aim.speed:g}x", chosen["name"], found, verdict, lost]


def _data(task: str, record: Record) -> str:
    rows = f"{record['train_rows']:,} rows to learn from, {record['choice_rows']:,} to choose with"
    spent = f"The search took {record['spent'] / 60:.0f} minutes of {record['budget'] / 60:.0f}"
    return f"{spent}: {rows}, and {record['test_results'][0]['rows']:,} to test with ({record['metric']})."


def _timed(record: Record) -> list[dict[str, Any]]:
    return sorted((row for row in record["results"] if row["timed"]), key=lambda row: float(row["ratio"]))


def _row(row: dict[str, Any]) -> list[str]:
    lost = f"{row['drop']:+.1f} ({row['drop_low']:+.1f} to {row['drop_high']:+.1f})"
    ratio = f"{row['ratio']:.1f}x ({row['lowest']:.1f} to {row['highest']:.1f})"
    mark = "chosen" if row["chosen"] else "*" if row["on_frontier"] else ""
    return [row["name"], f"{row['score']:.1f}", lost, f"{row['rate']:,.0f}", ratio, mark]


def _on_test_rows(record: Record) -> list[str]:
    rows = []
    for row in record["test_results"]:
        lost = f"{row['drop']:+.1f} ({row['drop_low']:+.1f} to {row['drop_high']:+.1f})"
        rows.append([row["name"], f"{row['score']:.1f}", lost])
    return [*table(["on the test rows", "score", "points lost (95%)"], rows), ""]


def draw_tuning(record: Record, file: Path) -> None:
    """The plot of a frontier, with everything that was timed."""
    rows = [row | {"score": row["score"] / 100, "best": row["on_frontier"]} for row in _timed(record)]
    first = [row for row in rows if row["family"] == "reference" and row["engine"] == "torch"]
    draw_frontier(record | {"results": [*first, *(row for row in rows if row not in first)]}, file)
