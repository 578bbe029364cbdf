"""A small model of what many texts cost: cores, hours and bytes. Reads only measurements that are committed.

Rows go straight from a file to a worker and back, and workers share nothing. So the time is

    seconds = start-up + texts / (workers * texts per second of one core * efficiency)

A core's speed comes from the card of the model, measured on texts in memory. The efficiency is what runs with Ray reach
of the local engine's speed on as many cores, both from files to files. One and the same is used for all models and
group sizes, so that none looks cheaper because it was measured differently.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from datamux.cluster.measured_run import LOCAL
from datamux.zoo import shipped_models

BILLION = 1_000_000_000
CORES = 64  # of the cluster in the table
ASSUMED = 0.75  # efficiency where no run was measured
START_UP = 60.0  # seconds until all workers have loaded the model
OVERHEAD = 0.25  # more time than the local engine takes in total, which is little enough
BYTES_IN, BYTES_ANSWER = 80.0, 60.0  # of a text and of its label and score as JSON, where no run has counted them
MODELS = ("sentiment-plain", "sentiment", "ner-plain", "ner")
MEDIANS = ("texts_per_second", "seconds", "working", "driver_mb")
Run = tuple[int, int, str, int]  # rows, group size, engine, workers
Record = dict[str, Any]
Speeds = Mapping[int, float]  # texts per second of one core, by group size


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
    """What Ray reaches of the local engine's speed: the lowest over the group sizes, each by its longest run.

    It is at most 1, and the assumed one if no run with Ray stands beside one of the local engine.
    """
    longest = _longest_pairs(record)
    return min([1.0, *(ray["of_local"] for ray, _ in longest.values())]) if longest else ASSUMED


def rows_for_overhead(record: Record, most: float = OVERHEAD) -> dict[int, float]:
    """From how many rows on Ray takes at most so much more time than the local engine in total, by group size.

    Both start up and then work through the rows, as they did in the longest runs that can be compared; Ray's workers
    count as no faster than the local engine. No number of rows is enough where they are too much slower.
    """
    found = {}
    for size, (ray, local) in _longest_pairs(record).items():
        ours, theirs = (1 / row["texts_per_second"] for row in (ray, local))
        gained = (1 + most) * theirs - max(ours, theirs)  # seconds per row
        if gained > 0:
            found[size] = max(0.0, (start_up(ray) - (1 + most) * start_up(local)) / gained)
    return found


def start_up(row: Record) -> float:
    """The seconds of a run until its model was there."""
    return float(row["seconds"] - row["working"])


def bytes_per_text(record: Record | None) -> tuple[float, float, bool]:
    """Of input and of output, by the longest run; and whether the output was counted, or is assumed."""
    rows = record["results"] if record else []
    longest: Record = max(rows, key=lambda row: int(row["rows"]), default={})
    told = longest.get("bytes_per_text", BYTES_IN)
    return told, longest.get("bytes_out_per_text", told + BYTES_ANSWER), "bytes_out_per_text" in longest


def card_speeds(model: str) -> Speeds:
    """The speeds on the card of a model; none for a model that is not in the package."""
    return {gear.group_size: gear.texts_per_second for gear in measured_gears([model])}


def speeds_of(record: Record) -> Speeds:
    """The speeds of a multiplexed model in a record of `datamux bench speed`, which used all cores."""
    rows = (row for row in record["results"] if row["about"]["demultiplexer"] is not None)
    return {row["group_size"]: row["rate"] / record["hardware"]["cores"] for row in rows}


def prediction_errors(record: Record, speeds: Speeds | None = None) -> list[float]:
    """For every run with Ray, by how much the model's time is too long (or, below 0, too short).

    Without `speeds` it takes those of the card. Runs whose group size has no speed are left out.
    """
    efficiency = efficiency_of(record)
    return [row["of_predicted"] / efficiency - 1 for row in compared(record, speeds) if _is_predicted(row)]


def _longest_pairs(record: Record | None) -> dict[int, tuple[Record, Record]]:
    """For every group size the longest run with Ray that has one of the local engine beside it, and that one."""
    found: dict[int, tuple[Record, Record]] = {}
    rows = compared(record) if record else []
    for ray in sorted(rows, key=lambda row: (row["rows"], row["workers"])):
        if ray["engine"] != LOCAL and ray["of_local"] is not None:
            same = ("rows", "group_size", "workers")
            local = next(row for row in rows if row["engine"] == LOCAL and all(row[name] == ray[name] for name in same))
            found[ray["group_size"]] = ray, local
    return found


def compared(record: Record, speeds: Speeds | None = None) -> list[Record]:
    """The measured runs; of equal ones, the medians.

    `of_local` is the speed against the local engine on as many cores, `of_card` against the speed on the model's card,
    `of_predicted` against `speeds`, and `total_of_local` the time of everything, start-up too, against that of the
    local engine; None if there is nothing to compare with.
    """
    runs: dict[Run, list[Record]] = {}
    for row in record["results"]:
        runs.setdefault((row["rows"], row["group_size"], row["engine"], row["workers"]), []).append(row)
    card = card_speeds(record["settings"]["model"])
    speeds = card if speeds is None else speeds
    found: dict[Run, Record] = {
        run: {**some[0], **{name: median(row[name] for row in some) for name in MEDIANS}, "runs": len(some)}
        for run, some in runs.items()
    }
    for (rows, size, _, workers), row in found.items():
        local = found.get((rows, size, LOCAL, workers))
        row["of_local"] = None if local is None else row["texts_per_second"] / local["texts_per_second"]
        row["total_of_local"] = None if local is None else row["seconds"] / local["seconds"]
        for name, some in (("of_card", card), ("of_predicted", speeds)):
            row[name] = row["texts_per_second"] / (workers * some[size]) if size in some else None
    return list(found.values())


def billion_table(record: Record | None = None) -> tuple[list[str], list[list[str]]]:
    """Titles and rows: what a billion texts cost with every gear."""
    titles = ["model", "texts per pass", "score", "texts per second and core", "core hours", f"hours on {CORES} cores"]
    efficiency, rows = efficiency_of(record), []
    for gear in measured_gears():
        seconds = seconds_for(BILLION, CORES, gear.texts_per_second, efficiency)
        hours = BILLION / (gear.texts_per_second * efficiency) / 3600
        cells = [f"{100 * gear.score:.1f}", f"{gear.texts_per_second:,.0f}", f"{hours:,.0f}", f"{seconds / 3600:.1f}"]
        rows.append([gear.model, str(gear.group_size), *cells])
    return titles, rows


def measured_table(record: Record, speeds: Speeds | None = None) -> tuple[list[str], list[list[str]]]:
    """Titles and rows: the measured runs, beside what the model of cost says about those with Ray, without start-up."""
    titles = ["rows", "texts per pass", "engine", "cores", "runs", "texts per second", "of the local engine"]
    titles += ["of the card", "seconds", "by the model of cost", "start-up, seconds", "in total, seconds"]
    titles += ["total against the local engine", "memory of the driver, MB"]
    efficiency, rows = efficiency_of(record), []
    for row in compared(record, speeds):
        seconds = row["working"] * row["of_predicted"] / efficiency if _is_predicted(row) else None
        cells = [f"{row['rows']:,}", str(row["group_size"]), row["engine"], str(row["workers"]), str(row["runs"])]
        cells += [f"{row['texts_per_second']:,.0f}", _percent(row["of_local"]), _percent(row["of_card"])]
        cells += [f"{row['working']:,.0f}", "" if seconds is None else f"{seconds:,.0f}"]
        cells += [f"{start_up(row):.0f}", f"{row['seconds']:,.0f}", _percent(row["total_of_local"])]
        cells += [f"{row['driver_mb']:,.0f}"]
        rows.append(cells)
    return titles, rows


def _is_predicted(row: Record) -> bool:
    return row["engine"] != LOCAL and row["of_predicted"] is not None


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
