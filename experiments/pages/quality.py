"""How good each model is at each group size, how the warm-up grew, and the ablations.

A record's file name is `<task>/<family>-<what>-seed<seed>.json`; records that differ in the seed alone share a row, and
the rows of a family are compared with the best of its rows whose name starts with "plain".
"""

import re
from collections import defaultdict
from itertools import pairwise
from statistics import fmean, pstdev

import numpy as np

from datamux.evaluate.records import read_record
from pages.common import DOCS, RESULTS, TITLES, minutes

SIZES = (1, 2, 5, 10, 20, 40)
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


def quality_sections() -> list[str]:
    """A table a task."""
    lines = []
    for task, title in TITLES.items():
        if (RESULTS / task).is_dir():
            metric = read_record(next(iter(sorted((RESULTS / task).glob("*.json")))))["results"][0]["metric"]
            lines += [f"## {title}", "", f"Metric: {metric}.", "", *table(task), ""]
    return lines


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


def growth(record: dict, stage: str) -> list[tuple[int, int, float]]:
    """(group size, step, minute) at which a stage's curriculum reached each size."""
    (found,) = [part for part in record["training"] if part["stage"] == stage]
    times = [(0, 0.0)] + [(entry["step"], entry["seconds"]) for entry in found["log"] if "seconds" in entry]
    steps, seconds = zip(*times, strict=True)
    reached = [(int(size), step) for size, step in found["reached"].items()]
    return [(size, step, float(np.interp(step, steps, seconds)) / 60) for size, step in reached]


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
    figure.savefig(DOCS / "growth.png", dpi=120, metadata={"Software": None})
