"""A small model of what many texts cost: cores, hours and bytes. Reads only measurements that are committed.

Rows go straight from a file to a worker and back, and workers share nothing. So the time is

    seconds = start-up + texts / (workers * texts per second of one core * efficiency)

The efficiency is what measured runs with Ray reach of the local engine on the same number of cores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datamux.cluster.measured_run import LOCAL
from datamux.zoo import shipped_models

BILLION = 1_000_000_000
CORES = 64  # of the cluster in the table
ASSUMED = 0.75  # efficiency where no run was measured: the most overhead that we allow
START_UP = 60.0  # seconds until all workers have loaded the model
MODELS = ("sentiment-plain", "sentiment", "ner-plain", "ner")
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
    """The lowest efficiency of all measured runs, and at most 1; the assumed one without a record."""
    if record is None:
        return ASSUMED
    return min(1.0, *(float(row["efficiency"]) for row in compared(record["results"]) if row["engine"] != LOCAL))


def compared(rows: Sequence[Record]) -> list[Record]:
    """Measured runs, each with its efficiency: its speed against that of the local engine times the workers."""
    alone = {(row["rows"], row["group_size"]): row["texts_per_second"] for row in rows if row["engine"] == LOCAL}
    return [
        {
            **row,
            "efficiency": row["texts_per_second"] / (row["workers"] * alone[row["rows"], row["group_size"]]),
            "start_up": row["seconds"] - row["working"],
        }
        for row in rows
    ]


def billion_table(record: Record | None = None) -> tuple[list[str], list[list[str]]]:
    """Titles and rows: what a billion texts cost with every gear."""
    efficiency = efficiency_of(record)
    titles = ["model", "texts per pass", "score", "texts per second and core", "core hours", f"hours on {CORES} cores"]
    rows = []
    for gear in measured_gears():
        seconds = seconds_for(BILLION, CORES, gear.texts_per_second, efficiency)
        hours = BILLION / (gear.texts_per_second * efficiency) / 3600
        cells = [f"{100 * gear.score:.1f}", f"{gear.texts_per_second:,.0f}", f"{hours:,.0f}", f"{seconds / 3600:.1f}"]
        rows.append([gear.model, str(gear.group_size), *cells])
    return titles, rows


def measured_table(record: Record) -> tuple[list[str], list[list[str]]]:
    """Titles and rows: the measured runs, beside what the model of cost says about them without start-up.

    It takes the speed of a core from the model's card, which is another measurement.
    """
    titles = ["rows", "texts per pass", "engine", "workers", "texts per second", "of the local engine, per worker"]
    titles += ["seconds", "by the model of cost", "start-up, seconds", "memory of the driver, MB"]
    known = {gear.group_size: gear.texts_per_second for gear in measured_gears([record["settings"]["model"]])}
    efficiency, rows = efficiency_of(record), []
    for row in compared(record["results"]):
        rate = known.get(row["group_size"], 0) * row["workers"] * (1 if row["engine"] == LOCAL else efficiency)
        cells = [f"{row['rows']:,}", str(row["group_size"]), row["engine"], str(row["workers"])]
        cells += [f"{row['texts_per_second']:,.0f}", f"{row['efficiency']:.0%}", f"{row['working']:,.0f}"]
        cells += [f"{row['rows'] / rate:,.0f}" if rate else "", f"{row['start_up']:.0f}", f"{row['driver_mb']:,.0f}"]
        rows.append(cells)
    return titles, rows
