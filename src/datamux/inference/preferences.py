"""How a model folder wants to be run: its precision, its group size and its batch size, as `datamux tune` found them.

It also knows the columns with texts of the file that it was made for.

A folder without this file is run as before. Whoever calls a predictor may still choose another group size.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "engine.json"


@dataclass(frozen=True)
class Preferences:
    """`group_size` None: as many texts per pass as there are slots. `positions` None: the usual number per pass."""

    bf16: bool = False
    group_size: int | None = None
    positions: int | None = None
    columns: tuple[str, ...] = ()

    def write(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps(asdict(self), indent=1) + "\n")


def read_preferences(folder: Path) -> Preferences:
    file = folder / FILE
    if not file.is_file():
        return Preferences()
    found = json.loads(file.read_text())
    return Preferences(**found | {"columns": tuple(found.get("columns", ()))})
