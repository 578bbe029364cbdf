"""The records of experiments that come with the package."""

from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from datamux.evaluate.records import read_record
from datamux.reproduce.catalogue import EXPERIMENTS, get_experiment
from datamux.reproduce.experiment import Experiment

RESULTS = Path(str(resources.files("datamux.reproduce"))) / "results"
Record = dict[str, Any]
State = Literal["yes", "in part", "no"]
Groups = dict[str, list[Record]]  # the records of a figure, one per seed, by the names of their experiments


def recorded(experiment: Experiment) -> list[Record]:
    """The records of an experiment that come with the package, one per seed."""
    files = [RESULTS / experiment.file_name(seed) for seed in experiment.recorded_seeds]
    return [read_record(file) for file in files if file.is_file()]


def recorded_by_name(name: str) -> list[Record]:
    """`recorded`, for an experiment by its name."""
    return recorded(get_experiment(name))


def records_of(figure: str) -> Groups:
    """The records of a figure that come with the package, in the order of the catalogue."""
    groups = {e.name: recorded(e) for e in EXPERIMENTS.values() if e.figure == figure}
    return {name: records for name, records in groups.items() if records}


def has_record(name: str) -> bool:
    """Whether the package has a record of an experiment, be it of one seed among several."""
    found, _ = count_records([get_experiment(name)])
    return found > 0


def count_records(experiments: Iterable[Experiment]) -> tuple[int, int]:
    """How many records of some experiments are in the package, of how many; each seed has a record of its own."""
    files = [RESULTS / experiment.file_name(seed) for experiment in experiments for seed in experiment.recorded_seeds]
    return sum(file.is_file() for file in files), len(files)


def record_state(experiments: Iterable[Experiment]) -> State:
    """Whether the records of some experiments are in the package: all of them, some or none."""
    found, needed = count_records(experiments)
    return "yes" if found == needed else "in part" if found else "no"


def committed(name: str) -> Record:
    """The record of an experiment that comes with the package; of several seeds the first."""
    records = recorded(get_experiment(name))
    if not records:
        raise FileNotFoundError(f"{name} has no committed record yet; run it: datamux reproduce {name}")
    return records[0]
