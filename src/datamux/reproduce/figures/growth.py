"""How long the warm-up took to cope with each group size: a table, and a picture beside it."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from datamux.evaluate.plots import pyplot_without_window, save_figure
from datamux.reproduce.records import Groups, Record, records_of
from datamux.reproduce.tables import paragraphs, table

ABOUT = paragraphs(
    "## How training time grows with the group size",
    "The step and minute at which the warm-up's curriculum moved on to each size: when the given share of words was "
    "right in training at the size before, or (marked *) because the capacity is due at half of the steps. The next "
    "column is when 95% of held-out words were right at the full capacity. The paper says that training time grows "
    "almost linearly with N; the last column has the power of N that fits the minutes here. A warm-up that continues "
    "another one shared the machine with other work for hours: its steps mean more than its minutes.",
    "![Group size against training time](growth.png)",
)


def growth_section(groups: Groups) -> list[str]:
    """The step and minute at which each warm-up reached each group size."""
    rows = []
    for found in growth_rows(groups):
        held = found["held_out"]
        held_words = f"{held['step']} ({held['minute']:.1f})" if held else "never"
        if found["power"] is None:
            rows.append([found["model"], "", "continues another warm-up", held_words, ""])
            continue
        points = [f"{p['size']}{'*' * p['due']}: {p['step']} ({p['minute']:.1f})" for p in found["reached"]]
        share = f"{found['share']:.0%}"
        rows.append([found["model"], share, ", ".join(points), held_words, f"N^{found['power']:.1f}"])
    titles = ["model", "share", "size: step (minute)", "95% held out: step (minute)", "minutes grow as"]
    return [*ABOUT, *table(titles, rows)]


def growth_rows(groups: Groups) -> list[dict[str, Any]]:
    """The same for scripts, one row per model. A warm-up that continues another one has no sizes and no power."""
    rows: list[dict[str, Any]] = []
    for name, (record, *_) in groups.items():
        reached: list[dict[str, Any]] = []
        alone = len(warmups(record)) == 1
        if alone:
            late = due_sizes(record)
            reached = [{"size": k, "step": step, "minute": m, "due": k in late} for k, step, m in growth(record)]
        about = {"model": name, "share": record["recipe"]["warmup"]["threshold"], "reached": reached}
        rows.append(about | {"held_out": _well_held(record), "power": _power(record) if alone else None})
    return rows


def _power(record: Record) -> float:
    """The p for which the minutes until the model coped with a size grow as size^p."""
    late = due_sizes(record)
    coped = [(size, minute) for (size, *_), (after, _, minute) in pairwise(growth(record)) if after not in late]
    sizes, spent = zip(*coped, strict=True)
    return float(np.polyfit(np.log(sizes), np.log(spent), 1)[0])


def _well_held(record: Record, share: float = 0.95) -> dict[str, float] | None:
    """The step and minute when this share of the held-out words was right for the first time, with all slots in use."""
    steps, minutes = 0, 0.0  # of the warm-ups before
    for stage in warmups(record):
        for entry in stage["log"]:
            if entry.get("eval_retrieval_accuracy", 0.0) >= share:
                return {"step": steps + entry["step"], "minute": minutes + _minute(stage, entry["step"])}
        steps, minutes = steps + stage["steps"], minutes + stage["seconds"] / 60
    return None


def warmups(record: Record) -> list[Record]:
    """The warm-ups of a model, one after the other: one may continue another."""
    return [part for part in record["training"] if part["stage"] == "warmup"]


def _minute(stage: Record, step: int) -> float:
    """The minute at which a stage reached a step."""
    times = [(0, 0.0)] + [(entry["step"], entry["seconds"]) for entry in stage["log"] if "seconds" in entry]
    steps, seconds = zip(*times, strict=True)
    return float(np.interp(step, steps, seconds)) / 60


def growth(record: Record) -> list[tuple[int, int, float]]:
    """(group size, step, minute) at which the curriculum of the only warm-up reached each size."""
    (stage,) = warmups(record)
    return [(int(size), step, _minute(stage, step)) for size, step in stage["reached"].items()]


def due_sizes(record: Record) -> set[int]:
    """Group sizes that the warm-up reached because they were due, not because the model coped."""
    capacity, deadline = record["recipe"]["model"]["num_instances"], record["recipe"]["warmup"]["steps"] // 2
    reached = sorted(growth(record))
    start = reached[0][0]
    return {
        size
        for (before, *_), (size, step, _) in pairwise(reached)
        if step - 1 >= deadline * (before + 1 - start) / (capacity + 1 - start)
    }


def draw_growth(file: Path) -> None:
    """The same as a picture, from the records in the package."""
    figure, axes = pyplot_without_window().subplots(figsize=(6, 3.5), layout="constrained")
    for name, group in records_of("retrieval").items():
        if len(warmups(group[0])) > 1:
            continue
        points = growth(group[0])
        axes.plot([minute for *_, minute in points], [size for size, *_ in points], "o-", label=name)
    axes.set_xlabel("minutes of training")
    axes.set_ylabel("instances per pass")
    axes.set_title("Retrieval warm-up: how fast the group size grows")
    axes.grid(alpha=0.3)
    axes.legend()
    save_figure(figure, file)
