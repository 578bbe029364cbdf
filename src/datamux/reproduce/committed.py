"""The records that come with the package."""

from importlib import resources
from pathlib import Path
from typing import Any

from datamux.evaluate.records import read_record
from datamux.reproduce.figures import get_figure


def has_record(name: str) -> bool:
    return (resources.files("datamux.reproduce") / "results" / f"{name}.json").is_file()


def committed(name: str) -> dict[str, Any]:
    """The record of a figure that comes with the package."""
    get_figure(name)
    with resources.as_file(resources.files("datamux.reproduce") / "results" / f"{name}.json") as file:
        if not file.exists():
            raise FileNotFoundError(f"{name} has no committed record yet; run it: datamux reproduce {name}")
        return read_record(Path(file))
