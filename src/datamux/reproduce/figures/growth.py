"""How long the warm-up took to cope with each group size: a table, and a picture beside it."""

from itertools import pairwise
from pathlib import Path

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
    records = {name: group[0] for name, group in groups.items()}
    rows = []
    for name, record in records.items():
        if len(warmups(record)) > 1:
            rows.append([name, "", "continues another warm-up", _well_held(record), ""])
            continue
        late = due_sizes(record)
        points = [f"{k}{'*' if k in late else ''}: {step} ({m:.1f})" for k, step, m in growth(record)]
        share = f"{record['recipe']['warmup']['threshold']:.0%}"
        rows.append([name, share, ", ".join(points), _well_held(record), f"N^{_power(record):.1f}"])
    titles = ["model", "share", "size: step (minute)", "95% held out: step (minute)", "minutes grow as"]
    return [*ABOUT, *table(titles, rows)]


def _power(record: Record) -> float:
    """The p for which the minutes until the model coped with a size grow as size^p."""
    late = due_sizes(record)
    coped = [(size, minute) for (size, *_), (after, _, minute) in pairwise(growth(record)) if after not in late]
    sizes, spent = zip(*coped, strict=True)
    return float(np.polyfit(np.log(sizes), np.log(spent), 1)[0])


def _well_held(record: Record, share: float = 0.95) -> str:
    """When this share of the held-out words was right for the first time, with all slots in use."""
    steps, minutes = 0, 0.0  # of the warm-ups before
    for stage in warmups(record):
        for entry in stage["log"]:
            if entry.get("eval_retrieval_accuracy", 0.0) >= share:
                return f"{steps + entry['step']} ({minutes + _minute(stage, entry['step']):.1f})"
        steps, minutes = steps + stage["steps"], minutes + stage["seconds"] / 60
    return "never"


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
