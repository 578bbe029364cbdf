"""Write docs/results.md, and the tables in README.md and docs/vision.md, from the committed run records.

`make results` runs it; with `--check` it only compares, and says what is out of date.

A record's file name is `<task>/<family>-<what>-seed<seed>.json`; records that differ in the seed alone share a row, and
the rows of a family are compared with the best of its rows whose name starts with "plain".
"""

import re
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np

from datamux.evaluate.records import read_record
from datamux.reproduce.figures import FIGURES
from datamux.reproduce.table import committed, has_record
from datamux.reproduce.table import rows_of as rows_of_figure
from datamux.zoo import shipped_models

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
VISION = ROOT / "docs" / "vision.md"
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
            digits = 2 if task == "wikipedia_en" else 1  # retrieval is so close to 100 that tenths hide it
            cells.append(f"{value:.{digits}f}{spread}{drop}")
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
        "The step and minute at which the warm-up's curriculum moved on to each size: when the given share of words",
        "was right in training at the size before, or (marked *) because the capacity is due at half of the steps.",
        "",
        "![Group size against training time](growth.png)",
        "",
        "| model | share | size: step (minute) |",
        "|---|---|---|",
    ]
    for name, record in records.items():
        late = due_sizes(record)
        points = [f"{k}{'*' if k in late else ''}: {step} ({m:.1f})" for k, step, m in growth(record, "warmup")]
        lines.append(f"| {name} | {record['recipe']['warmup']['threshold']:.0%} | " + ", ".join(points) + " |")
    return [*lines, ""]


def due_sizes(record: dict) -> set[int]:
    """Group sizes that the warm-up reached because they were due, not because the model coped."""
    (stage,) = [part for part in record["training"] if part["stage"] == "warmup"]
    capacity, deadline = record["recipe"]["model"]["num_instances"], record["recipe"]["warmup"]["steps"] // 2
    reached = sorted((int(size), step) for size, step in stage["reached"].items())
    start = reached[0][0]
    return {
        size
        for (before, _), (size, step) in pairwise(reached)
        if step - 1 >= deadline * (before + 1 - start) / (capacity + 1 - start)
    }


ABLATIONS = {
    "ablation": (
        "What makes the warm-up work",
        "Retrieval accuracy on held-out Wikipedia after {steps} steps at capacity 10, one seed. Each row differs from",
        "`gate` in the one thing it is named after (`experiments/ablation.sh warmup`).",
    ),
    "ablation-sst2": (
        "What makes the task stage work",
        "SST-2 accuracy (validation and test) after {steps} steps at capacity 20, one seed. Each row differs from",
        "`as-is` in the one thing it is named after (`experiments/ablation.sh task`).",
    ),
}


def ablation_sections() -> list[str]:
    """Short runs that differ from the first in one thing each, the best first."""
    lines = []
    for folder, (title, *about) in ABLATIONS.items():
        records = {file.stem: read_record(file) for file in sorted((RESULTS / folder).glob("*.json"))}
        if not records:
            continue
        (steps,) = {record["training"][-1]["steps"] for record in records.values()}
        sizes = [row["group_size"] for row in next(iter(records.values()))["results"]]
        lines += [f"## {title}", "", *(line.format(steps=steps) for line in about), ""]
        lines += [
            "| changed | minutes | " + " | ".join(f"k = {k}" for k in sizes) + " |",
            "|---" * (2 + len(sizes)) + "|",
        ]
        for name, record in sorted(records.items(), key=lambda item: -item[1]["results"][-1]["score"]):
            cells = [f"{100 * row['score']:.1f}" for row in record["results"]]
            lines.append(f"| {name} | {minutes(record):.1f} | " + " | ".join(cells) + " |")
        lines.append("")
    return lines


def frontier_section() -> list[str]:
    """Accuracy against throughput of everything that was put side by side."""
    lines = []
    for file in sorted((RESULTS / "frontier").glob("*.json")):
        record = read_record(file)
        lines += [
            f"## Should you use it? {TITLES[record['task']]}",
            "",
            "Everything ran in one process, in turn, from texts to answers, each at its best batch size",
            "(`experiments/frontier.sh`). A star: nothing else is both faster and better. Models of several layers",
            "are one pretrained encoder, its upper layers cut off and fine-tuned with the same teacher.",
            "",
            f"![Accuracy against throughput](frontier-{file.stem}.png)",
            "",
            "| | score | points lost | instances/s | against the first (lowest to highest) | |",
            "|---|---|---|---|---|---|",
        ]
        first = record["results"][0]
        for r in sorted(record["results"], key=lambda r: (r is not first, r["rate"])):
            name = r["model"] + (f", {r['group_size']} a pass" if r["group_size"] > 1 else "")
            ratio = f"{r['ratio']:.1f}x ({r['lowest']:.1f} to {r['highest']:.1f})"
            star = "*" if r["best"] else ""
            lines.append(f"| {name} | {100 * r['score']:.1f} | {r['drop']:.1f} | {r['rate']:,.0f} | {ratio} | {star} |")
        lines.append("")
    return lines


def speed_section() -> list[str]:
    """Every speed and memory record as a table, its picture below it."""
    lines = []
    for file in sorted((RESULTS / "speed").glob("*.json")):
        record = read_record(file)
        settings, rows = record["settings"], record["results"]
        shape = settings["shape"]
        title = f"{shape['layers']}L/{shape['hidden']}H" + (", tagging" if shape["token_level"] else "")
        if record["kind"] == "memory":
            lines += [
                f"### Memory: {title}, one pass of {rows[0]['groups']} groups of {rows[0]['tokens']} tokens",
                "",
                "Megabytes above what Python and torch take by themselves, each row in a process of its own.",
                "",
                "| instances a pass | model | peak | against the first row |",
                "|---|---|---|---|",
                *(f"| {r['group_size']} | {r['model']:,.0f} | {r['peak']:,.0f} | {r['ratio']:.2f}x |" for r in rows),
                "",
            ]
            continue
        if record["kind"] == "parts":
            lines += [
                f"### Where the time goes: {title}, {settings['tokens']} tokens" + (", bf16" * settings["bf16"]),
                "",
                f"Milliseconds a group, in passes of {settings['groups']} groups; median of the rounds.",
                "",
                "| instances a pass | mixing | encoder | demultiplexer | head | the plain model, one instance |",
                "|---|---|---|---|---|---|",
                *(
                    f"| {r['group_size']} | {r['mixing']:.3f} | {r['encoder']:.3f} | {r['demultiplexer']:.3f} "
                    f"| {r['head']:.3f} | {r['plain']:.3f} |"
                    for r in rows
                ),
                "",
            ]
            continue
        what = "from texts to answers, " if settings["texts"] else "from token ids, "
        lines += [
            f"### Speed: {title}, {what}lengths {settings['lengths']}",
            "",
            "| | instances/s | against plain, same engine (lowest to highest) | of the limit | positions a pass |",
            "|---|---|---|---|---|",
        ]
        for r in rows:
            limit = f"{r['ratio'] / r['group_size']:.0%}" if r["group_size"] > 1 else ""
            ratio = f"{r['ratio']:.2f}x ({r['lowest']:.2f} to {r['highest']:.2f})"
            lines.append(f"| {r['name']} | {r['rate']:,.0f} | {ratio} | {limit} | {r['positions']} |")
        picture = f"speed-{file.stem}.png"
        lines += ["", *([f"![{title}]({picture})", ""] if (PAGE.parent / picture).exists() else [])]
    if not lines:
        return []
    how = [
        "## Speed and memory",
        "",
        "Measured by `experiments/speed.sh`. Plain is the Hugging Face classifier of the same shape. Everything in one",
        "table ran in one process, in turn, each at the best of several batch sizes. `gate` is ours, `index` the",
        "paper's prefix. Weights are random where no trained model is named: they do not change the time.",
        "",
    ]
    return [*how, *lines]


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
    return "\n".join([*lines, *frontier_section(), *growth_section(), *ablation_sections(), *speed_section()])


def fill(text: str, name: str, lines: list[str]) -> str:
    """`text` with `lines` between the marks of `name`, if it has them."""
    before, start, rest = text.partition(f"<!-- results: {name} -->\n")
    if not start:
        return text
    _, end, after = rest.partition("<!-- end of results -->")
    return before + start + "\n".join(lines) + "\n" + end + after


def readme() -> str:
    """README.md with its tables of shipped models and of SST-2 results as the records have them."""
    return fill(fill(README.read_text(), "zoo", zoo_table()), "sst2", table("sst2"))


def zoo_table() -> list[str]:
    """The models in the package: what each scores at each group size, and how fast it is there."""
    cards = shipped_models()
    if not cards:
        return ["None is packed yet: `experiments/zoo.sh`."]
    sizes = sorted({int(k) for card in cards.values() for k in card["scores"]})
    lines = [
        "| model | measured on | million weights | " + " | ".join(f"k = {k}" for k in sizes) + " |",
        "|---" * (3 + len(sizes)) + "|",
    ]
    for name, card in cards.items():
        cells = []
        for k in map(str, sizes):
            score = f"{100 * card['scores'][k]:.1f}" if k in card["scores"] else ""
            speed = card.get("speed", {}).get(k)
            cells.append(f"{score} ({speed[0]:.1f}x)" if score and speed else score)
        task = f"{TITLES[card['task']]}, {card['metric']}"
        lines.append(f"| {name} | {task} | {card['parameters'] / 1e6:.1f} | " + " | ".join(cells) + " |")
    return lines


def figure_table(name: str) -> list[str]:
    """A figure's record as a table: a line a series, a column a group size."""
    if not has_record(name):
        return [f"Not run yet: `datamux reproduce {name}`."]
    record = committed(name)
    rows = rows_of_figure(record)
    sizes = sorted({row["n"] for row in rows})
    cells = {(row["series"], row["n"]): row for row in rows}
    data = record["data"]
    seeds = sorted({row["seeds"] for row in rows})
    lines = [
        f"{rows[0]['metric']}; {data['source']}, {data['train']:,} training and {data['test']:,} test images, "
        f"seeds: {' to '.join(map(str, seeds[:: max(1, len(seeds) - 1)]))}.",
        "",
        "| series | " + " | ".join(f"N = {n}" for n in sizes) + " |",
        "|---" * (1 + len(sizes)) + "|",
    ]
    for series in dict.fromkeys(row["series"] for row in rows):
        shown = [figure_cell(cells.get((series, n))) for n in sizes]
        lines.append(f"| {series} | " + " | ".join(shown) + " |")
    return lines


def figure_cell(row: dict | None) -> str:
    if row is None:
        return ""
    spread = f" ± {row['spread']:.1f}" if row["spread"] else ""
    paper = f" (paper: {row['paper']:.2f})" if row["paper"] is not None else ""
    return f"{row['value']:.2f}{spread}{paper}"


def vision() -> str:
    """docs/vision.md with every figure's table as its record has it."""
    text = VISION.read_text()
    for name in FIGURES:
        text = fill(text, name, figure_table(name))
    return text


def main() -> int:
    stale = []
    for file, text in ((PAGE, page()), (README, readme()), (VISION, vision())):
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
