"""Write docs/results.md, and the table in README.md, from the run records in experiments/results.

`make results` runs it; with `--check` it only compares, and says what is out of date.

A record's file name is `<task>/<family>-<what>-seed<seed>.json`; records that differ in the seed alone share a row, and
the rows of a family are compared with the best of its rows whose name starts with "plain".
"""

import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np

from datamux.evaluate.records import read_record

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
SIZES = (1, 2, 5, 10, 20, 40)
TITLES = {
    "sst2": "SST-2, validation and test together",
    "conll2003": "CoNLL-2003, test",
    "qqp": "QQP, a subset of 20,000 rows",
    "qnli": "QNLI, a subset of 5,463 rows",
    "mnli": "MNLI, a subset of 9,815 rows",
    "banking77": "banking77, test",
    "wikipedia_en": "Retrieval on held-out Wikipedia",
}


def rows_of(task: str) -> dict[str, list[dict]]:
    """What was trained -> its records, one a seed."""
    groups: dict[str, list[dict]] = defaultdict(list)
    for file in sorted((RESULTS / task).glob("*.json")):
        groups[re.sub(r"-seed\d+$", "", file.stem)].append(read_record(file))
    return dict(groups)


def scores(records: list[dict]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for record in records:
        for row in record["results"]:
            found[row["group_size"]].append(100 * row["score"])
    return found


def minutes(record: dict) -> float:
    return sum(stage["seconds"] for stage in record["training"]) / 60


def table(task: str) -> list[str]:
    groups = rows_of(task)
    best: dict[str, float] = {}
    for name, records in groups.items():
        family, _, what = name.partition("-")
        if what.startswith("plain"):
            best[family] = max(best.get(family, 0.0), fmean(scores(records)[1]))
    lines = [
        "| model | seeds | minutes | " + " | ".join(f"k = {k}" for k in SIZES) + " |",
        "|---" * (3 + len(SIZES)) + "|",
    ]
    for name, records in groups.items():
        family, _, what = name.partition("-")
        found = scores(records)
        cells = []
        for k in SIZES:
            if k not in found:
                cells.append("")
                continue
            value = fmean(found[k])
            spread = f" ± {pstdev(found[k]):.1f}" if len(found[k]) > 1 else ""
            drop = f" ({value - best[family]:+.1f})" if family in best and not what.startswith("plain") else ""
            cells.append(f"{value:.1f}{spread}{drop}")
        spent = fmean(minutes(record) for record in records)
        lines.append(f"| {name} | {len(records)} | {spent:.0f} | " + " | ".join(cells) + " |")
    return lines


def growth(record: dict, stage: str) -> list[tuple[int, int, float]]:
    """(group size, step, minute) at which a stage's curriculum reached each size."""
    (found,) = [part for part in record["training"] if part["stage"] == stage]
    times = [(0, 0.0)] + [(entry["step"], entry["seconds"]) for entry in found["log"] if "seconds" in entry]
    steps, seconds = zip(*times, strict=True)
    reached = [(int(size), step) for size, step in found["reached"].items()]
    return [(size, step, float(np.interp(step, steps, seconds)) / 60) for size, step in reached]


def growth_section() -> list[str]:
    """How long the warm-up took to cope with each group size: a table, and a picture beside it."""
    records = {name: group[0] for name, group in rows_of("wikipedia_en").items() if "plain" not in name}
    lines = [
        "## How training time grows with the group size",
        "",
        "The step and minute at which the warm-up's curriculum moved on to each size: when 85% of the words were named",
        "rightly at the size before, or at the latest so that the capacity is reached at half of the steps.",
        "",
        "![Group size against training time](growth.png)",
        "",
        "| model | " + "size: step (minute) |",
        "|---|---|",
    ]
    for name, record in records.items():
        points = growth(record, "warmup")
        lines.append(f"| {name} | " + ", ".join(f"{k}: {step} ({minute:.1f})" for k, step, minute in points) + " |")
    return [*lines, ""]


def ablation_section() -> list[str]:
    """Short warm-ups that differ from the first, "gate", in one thing each."""
    records = {file.stem: read_record(file) for file in sorted((RESULTS / "ablation").glob("*.json"))}
    if not records:
        return []
    (steps,) = {record["training"][0]["steps"] for record in records.values()}
    lines = [
        "## What makes the warm-up work",
        "",
        f"Retrieval accuracy on held-out Wikipedia after {steps} steps at capacity 10, one seed. Each row differs from",
        "`gate` in the one thing it is named after (`experiments/ablation.sh`).",
        "",
        "| changed | minutes | k = 1 | k = 5 | k = 10 |",
        "|---|---|---|---|---|",
    ]
    for name, record in sorted(records.items(), key=lambda item: -item[1]["results"][-1]["score"]):
        cells = [f"{100 * row['score']:.1f}" for row in record["results"]]
        lines.append(f"| {name} | {minutes(record):.1f} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def draw_growth() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    for name, group in rows_of("wikipedia_en").items():
        points = growth(group[0], "warmup")
        axes.plot([minute for *_, minute in points], [size for size, *_ in points], "o-", label=name)
    axes.set_xlabel("minutes of training")
    axes.set_ylabel("instances a pass")
    axes.set_title("Retrieval warm-up: how fast the group size grows")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(PAGE.parent / "growth.png", dpi=120, metadata={"Software": None})


def page() -> str:
    lines = [
        "# Results",
        "",
        "Generated by `make results` from the run records in `experiments/results`; do not edit.",
        "",
        "Each row is one recipe; every column of a multiplexed row is **the same checkpoint** at another group size k.",
        "Scores are percent, mean over the seeds and over three random groupings; in brackets the difference to",
        "the best plain model of the same family. Minutes are training time, all stages together, and upper bounds:",
        "other work ran on the machine at times. With one seed, differences of less than two points are not findings.",
        "",
    ]
    for task, title in TITLES.items():
        if (RESULTS / task).is_dir():
            metric = read_record(next(iter(sorted((RESULTS / task).glob("*.json")))))["results"][0]["metric"]
            lines += [f"## {title}", "", f"Metric: {metric}.", "", *table(task), ""]
    return "\n".join([*lines, *growth_section(), *ablation_section()])


def readme() -> str:
    """README.md with its table of SST-2 results as the records have it."""
    before, start, rest = README.read_text().partition("<!-- results: sst2 -->\n")
    _, end, after = rest.partition("<!-- end of results -->")
    return before + start + "\n".join(table("sst2")) + "\n" + end + after


def main() -> int:
    stale = []
    for file, text in ((PAGE, page()), (README, readme())):
        if file.exists() and file.read_text() == text:
            continue
        stale.append(str(file.relative_to(ROOT)))
        if "--check" not in sys.argv:
            file.write_text(text)
    if "--check" not in sys.argv:
        draw_growth()
    if "--check" in sys.argv and stale:
        print(f"out of date: {', '.join(stale)}; run `make results`")
        return 1
    print(f"{'wrote ' + ', '.join(stale) if stale else 'results are up to date'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
