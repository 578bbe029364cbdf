"""How good each model is at each group size, how the warm-up grew, and the ablations.

A record's file name is `<task>/<family>-<what>-seed<seed>.json`; records that differ in the seed alone share a row, and
the rows of a family are compared with the best of its rows whose name starts with "plain".
"""

import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np

from datamux.evaluate.plots import pyplot_without_window, save_figure
from datamux.evaluate.records import read_record
from pages.common import RESULTS, TITLES, minutes

SIZES = (1, 2, 5, 10, 20, 40)
# The rows of the README's table: what a reader calls a model -> its records.
IN_SHORT = {
    "plain, four layers": "scratch-plain",
    "plain, one layer, taught by a pretrained one": "scratch-plain-1l-256h-taught",
    "plain, no layer: words alone": "scratch-plain-0l-256h",
    "**mixed**, four layers": "scratch-n20",
    "pretrained (MiniLM), all six layers": "minilm-plain-6-layers",
    "pretrained, cut to its first two layers": "minilm-plain-2-layers-longer",
    "pretrained, **mixed** after its second layer": "minilm-n10-mux-layer-2",
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


def quality_sections() -> list[str]:
    """A table a task."""
    lines = []
    for task, title in TITLES.items():
        if (RESULTS / task).is_dir():
            metrics = {
                read_record(file)["results"][0]["metric"]: None for file in sorted((RESULTS / task).glob("*.json"))
            }
            lines += [f"## {title}", "", f"Metric: {', '.join(metrics)}.", "", *table(task), ""]
    return lines


def table(task: str) -> list[str]:
    groups = rows_of(task)
    best: dict[str, float] = {}
    for name, records in groups.items():
        family, _, what = name.partition("-")
        if what.startswith("plain"):
            best[family] = max(best.get(family, 0.0), fmean(scores(records)[1]))
    lines = [
        "| model | seeds | epochs | minutes | " + " | ".join(f"k = {k}" for k in SIZES) + " |",
        "|---" * (4 + len(SIZES)) + "|",
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
        seen = fmean(epochs(record) for record in records)
        lines.append(f"| {name} | {len(records)} | {seen:.1f} | {spent:.0f} | " + " | ".join(cells) + " |")
    return lines


def short_table(task: str) -> list[str]:
    """A few rows with plain names; `table` has them all."""
    groups = rows_of(task)
    found = {name: scores(groups[kept]) for name, kept in IN_SHORT.items()}
    sizes = [k for k in SIZES if any(k in row for row in found.values())]
    lines = ["| model | seeds | " + " | ".join(f"k = {k}" for k in sizes) + " |", "|---" * (2 + len(sizes)) + "|"]
    for name, row in found.items():
        cells = [f"{fmean(row[k]):.1f}" if k in row else "" for k in sizes]
        lines.append(f"| {name} | {len(row[1])} | " + " | ".join(cells) + " |")
    return lines


def epochs(record: dict) -> float:
    """How often the last stage went over its rows."""
    return max(float(entry["epoch"]) for entry in record["training"][-1]["log"])


def rows_of(task: str, results: Path = RESULTS) -> dict[str, list[dict]]:
    """What was trained -> its records, one a seed."""
    groups: dict[str, list[dict]] = defaultdict(list)
    for file in sorted((results / task).glob("*.json")):
        groups[re.sub(r"-seed\d+$", "", file.stem)].append(read_record(file))
    for name, records in groups.items():
        first, *others = (settings(record["recipe"]) for record in records)
        if any(other != first for other in others):
            raise ValueError(f"the records of {name!r} differ in more than the seed: give them names of their own")
    return dict(groups)


def settings(recipe: dict) -> dict:
    """What makes a recipe another one: not the seed, not where things lay, not the machine's precision.

    What is off is as if it did not exist, which in older records it does not.
    """
    kept = {(section, key): value for section, keys in recipe.items() for key, value in keys.items()}
    for where in (("model", "start"), ("model", "tokenizer"), ("task", "teacher")):
        kept[where] = kept.get(where) not in (None, "", "none")
    return {place: value for place, value in kept.items() if value and place not in {("run", "seed"), ("run", "bf16")}}


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
        "was right in training at the size before, or (marked *) because the capacity is due at half of the steps. The",
        "next column is when 95% of held-out words were right at the full capacity. The paper says that training time",
        "grows almost linearly with N; the last column has the power of N that fits the minutes here. A warm-up that",
        "continues another shared the machine with other work for hours: read its step, not its minutes.",
        "",
        "![Group size against training time](growth.png)",
        "",
        "| model | share | size: step (minute) | 95% held out: step (minute) | minutes grow as |",
        "|---|---|---|---|---|",
    ]
    for name, record in records.items():
        if len(warmups(record)) > 1:
            lines.append(f"| {name} | | continues another warm-up | {_well_held(record)} | |")
            continue
        late = due_sizes(record)
        points = [f"{k}{'*' if k in late else ''}: {step} ({m:.1f})" for k, step, m in growth(record, "warmup")]
        share = f"{record['recipe']['warmup']['threshold']:.0%}"
        lines.append(f"| {name} | {share} | {', '.join(points)} | {_well_held(record)} | N^{_power(record):.1f} |")
    return [*lines, ""]


def _power(record: dict) -> float:
    """The p for which the minutes until the model coped with a size grow as size^p."""
    late = due_sizes(record)
    coped = [
        (size, minute) for (size, *_), (after, _, minute) in pairwise(growth(record, "warmup")) if after not in late
    ]
    sizes, spent = zip(*coped, strict=True)
    return float(np.polyfit(np.log(sizes), np.log(spent), 1)[0])


def _well_held(record: dict, share: float = 0.95) -> str:
    """When this share of the held-out words was right for the first time, with all instances a pass."""
    steps, minutes = 0, 0.0  # of the warm-ups before
    for stage in warmups(record):
        for entry in stage["log"]:
            if entry.get("eval_retrieval_accuracy", 0.0) >= share:
                return f"{steps + entry['step']} ({minutes + _minute(stage, entry['step']):.1f})"
        steps, minutes = steps + stage["steps"], minutes + stage["seconds"] / 60
    return "never"


def warmups(record: dict) -> list[dict]:
    """The warm-ups of a model, one after the other: one may continue another."""
    return [part for part in record["training"] if part["stage"] == "warmup"]


def _minute(stage: dict, step: int) -> float:
    """The minute at which a stage reached a step."""
    times = [(0, 0.0)] + [(entry["step"], entry["seconds"]) for entry in stage["log"] if "seconds" in entry]
    return float(np.interp(step, *zip(*times, strict=True))) / 60


def growth(record: dict, stage: str) -> list[tuple[int, int, float]]:
    """(group size, step, minute) at which a stage's curriculum reached each size."""
    (found,) = [part for part in record["training"] if part["stage"] == stage]
    return [(int(size), step, _minute(found, step)) for size, step in found["reached"].items()]


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


def draw_growth(file: Path) -> None:
    figure, axes = pyplot_without_window().subplots(figsize=(6, 3.5), layout="constrained")
    for name, group in rows_of("wikipedia_en").items():
        if len(warmups(group[0])) > 1:
            continue
        points = growth(group[0], "warmup")
        axes.plot([minute for *_, minute in points], [size for size, *_ in points], "o-", label=name)
    axes.set_xlabel("minutes of training")
    axes.set_ylabel("instances a pass")
    axes.set_title("Retrieval warm-up: how fast the group size grows")
    axes.grid(alpha=0.3)
    axes.legend()
    save_figure(figure, file)
