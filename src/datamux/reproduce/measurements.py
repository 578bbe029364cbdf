"""Measurements that are neither a command nor about images: the paper's construction, and its anchors.

`MEASUREMENTS` maps the kind of an experiment to what carries it out. Each returns a record whose `rows` are ready.
"""

from collections.abc import Callable, Mapping
from typing import Any

from datamux.reproduce.anchors import anchors_record
from datamux.reproduce.construction import construction_record
from datamux.reproduce.experiment import Experiment

Record = dict[str, Any]
MEASUREMENTS: dict[str, Callable[[Experiment, Mapping[str, Any], str | None], Record]] = {
    "theory": lambda experiment, settings, data_dir: construction_record(),
    "anchors": anchors_record,
}
