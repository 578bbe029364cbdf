"""Whether a record may stand for its figure: of MNIST, by this code, every series at every size, three seeds, nothing
else.
"""

from collections.abc import Sequence
from typing import Any

from datamux.reproduce.accuracy import settings_of
from datamux.reproduce.figures import get_figure
from datamux.reproduce.picture import GROUPS
from datamux.reproduce.runs import VERSION
from datamux.reproduce.series import Series
from datamux.reproduce.speed import timed_series
from datamux.tasks.images import MNIST

DATA = {"source": MNIST, "train": 60_000, "test": 10_000}
SEEDS = [0, 1, 2]


def problems(record: dict[str, Any]) -> list[str]:
    """What is wrong with a record that was read from a file; nothing, if it may be committed."""
    found = [] if record["data"] == DATA else [f"its data are {record['data']}, not {DATA}"]
    if record["kind"] == "reproduce":
        found += _of_training(record)
    if record["kind"] == "picture":
        series = get_figure(record["figure"]).series
        found += _of_settings(record, series)
        found += _of_points({(r["series"], r["n"]) for r in record["rows"]}, _points(series))
        found += [] if len(record["results"]) == GROUPS else [f"it has {len(record['results'])} groups, not {GROUPS}"]
    if record["kind"] == "speed":
        wanted = {(name, n) for name, (_, series) in timed_series().items() for n in series.sizes}
        found += _of_points({(r["series"], r["n"]) for r in record["results"]}, wanted)
    return found


def _of_training(record: dict[str, Any]) -> list[str]:
    series = get_figure(record["figure"]).series
    found = _of_settings(record, series)
    seeds: dict[tuple[str, int], list[int]] = {}
    for result in record["results"]:
        seeds.setdefault((result["series"], result["n"]), []).append(result["seed"])
    found += _of_points(set(seeds), _points(series))
    found += [f"{name!r} at N = {n} has seeds {s}, not {SEEDS}" for (name, n), s in seeds.items() if sorted(s) != SEEDS]
    return found


def _of_settings(record: dict[str, Any], series: Sequence[Series]) -> list[str]:
    version, wanted, there = record.get("version"), settings_of(series), record["recipe"]
    found = [] if version == VERSION else [f"its code is of version {version}, not {VERSION}"]
    return found + [
        f"the settings of {name!r} are not the figure's"
        for name in dict.fromkeys((*wanted, *there))
        if there.get(name) != wanted.get(name)
    ]


def _points(series: Sequence[Series]) -> set[tuple[str, int]]:
    return {(s.name, n) for s in series for n in s.sizes}


def _of_points(there: set[tuple[str, int]], wanted: set[tuple[str, int]]) -> list[str]:
    return [
        *(f"{name!r} at N = {n} is missing" for name, n in sorted(wanted - there)),
        *(f"{name!r} at N = {n} is not part of the figure" for name, n in sorted(there - wanted)),
    ]
