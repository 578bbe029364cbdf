"""A small model of what many texts cost: cores, hours and bytes. Reads only measurements that are committed.

Rows go straight from a file to a worker and back, and workers share nothing. So the time is

    seconds = start-up + texts / (workers * texts per second of one core * efficiency)

A core's speed comes from the card of the model, measured on texts in memory. The efficiency is what runs with Ray reach
of it, from files to files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from datamux.cluster.measured_run import LOCAL
from datamux.zoo import shipped_models

BILLION = 1_000_000_000
CORES = 64  # of the cluster in the table
ASSUMED = 0.75  # efficiency where no run was measured
START_UP = 60.0  # seconds until all workers have loaded the model
MODELS = ("sentiment-plain", "sentiment", "ner-plain", "ner")
MEDIANS = ("texts_per_second", "seconds", "working", "driver_mb")
Record = dict[str, Any]


@dataclass(frozen=True)
class Gear:
    """A model at a group size, and how fast one core runs it."""

    model: str
    group_size: int
    texts_per_second: float
    score: float


def measured_gears(models: Sequence[str] = MODELS) -> list[Gear]:
    """The gears of the models in the package, from their cards; other models have none.

    Cards are measured on all cores of a machine.
    """
    cards = shipped_models()
    return [
        Gear(name, int(size), speed["texts_per_second"] / cards[name]["hardware"]["cores"], cards[name]["scores"][size])
        for name in models
        if name in cards
        for size, speed in cards[name]["speed"].items()
        if size in cards[name]["scores"]
    ]


def seconds_for(texts: int, workers: int, texts_per_second: float, efficiency: float = ASSUMED) -> float:
    """How long a job takes; `texts_per_second` is that of one core."""
    return START_UP + texts / (workers * texts_per_second * efficiency)


def efficiency_of(record: Record | None) -> float:
    """What Ray reaches of the card's speed: the lowest over the group sizes, each by its longest run; at most 1.

    It is the assumed one without a record, or if the model has no card.
    """
    if record is None:
        return ASSUMED
    longest: dict[int, Record] = {}
    for row in compared(record):
        size = row["group_size"]
        if row["engine"] != LOCAL and row["of_card"] is not None:
            longest[size] = max(row, longest.get(size, row), key=lambda one: (one["rows"], one["workers"]))
    return min([1.0, *(float(row["of_card"]) for row in longest.values())]) if longest else ASSUMED


def compared(record: Record) -> list[Record]:
    """The measured runs; of equal ones, the medians.

    `of_local` is the speed against the local engine on as many cores, `of_card` against the speed on the model's card;
    None if there is nothing to compare with.
    """
    runs: dict[tuple[int, int, str, int], list[Record]] = {}
    for row in record["results"]:
        runs.setdefault((row["rows"], row["group_size"], row["engine"], row["workers"]), []).append(row)
    card = {gear.group_size: gear.texts_per_second for gear in measured_gears([record["settings"]["model"]])}
    found: dict[tuple[int, int, str, int], Record] = {
        run: {**some[0], **{name: median(row[name] for row in some) for name in MEDIANS}, "runs": len(some)}
        for run, some in runs.items()
    }
    for (rows, size, _, workers), row in found.items():
        local = found.get((rows, size, LOCAL, workers))
        row["of_local"] = None if local is None else row["texts_per_second"] / local["texts_per_second"]
        row["of_card"] = row["texts_per_second"] / (workers * card[size]) if size in card else None
    return list(found.values())


def billion_table(record: Record | None = None) -> tuple[list[str], list[list[str]]]:
    """Titles and rows: what a billion texts cost with every gear."""
    titles = ["model", "texts per pass", "score", "texts per second and core", "efficiency"]
    titles += ["core hours", f"hours on {CORES} cores"]
    rows = []
    for gear in measured_gears():
        known = record is not None and record["settings"]["model"] == gear.model
        efficiency = efficiency_of(record) if known else ASSUMED
        seconds = seconds_for(BILLION, CORES, gear.texts_per_second, efficiency)
        hours = BILLION / (gear.texts_per_second * efficiency) / 3600
        cells = [f"{100 * gear.score:.1f}", f"{gear.texts_per_second:,.0f}", f"{efficiency:.0%}"]
        cells += [f"{hours:,.0f}", f"{seconds / 3600:.1f}"]
        rows.append([gear.model, str(gear.group_size), *cells])
    return titles, rows


def measured_table(record: Record) -> tuple[list[str], list[list[str]]]:
    """Titles and rows: the measured runs, beside what the model of cost says about those with Ray, without start-up."""
    titles = ["rows", "texts per pass", "engine", "cores", "runs", "texts per second", "of the local engine"]
    titles += ["of the card", "seconds", "by the model of cost", "start-up, seconds", "memory of the driver, MB"]
    efficiency, rows = efficiency_of(record), []
    for row in compared(record):
        told = row["engine"] != LOCAL and row["of_card"] is not None
        seconds = row["working"] * row["of_card"] / efficiency if told else None
        cells = [f"{row['rows']:,}", str(row["group_size"]), row["engine"], str(row["workers"]), str(row["runs"])]
        cells += [f"{row['texts_per_second']:,.0f}", _percent(row["of_local"]), _percent(row["of_card"])]
        cells += [f"{row['working']:,.0f}", "" if seconds is None else f"{seconds:,.0f}"]
        cells += [f"{row['seconds'] - row['working']:.0f}", f"{row['driver_mb']:,.0f}"]
        rows.append(cells)
    return titles, rows


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
