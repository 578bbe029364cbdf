"""How a model folder wants to be run: its precision, its group size and its batch size, as `datamux tune` found them.

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

    def write(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps(asdict(self), indent=1) + "\n")


def read_preferences(folder: Path) -> Preferences:
    file = folder / FILE
    return Preferences(**json.loads(file.read_text())) if file.is_file() else Preferences()
