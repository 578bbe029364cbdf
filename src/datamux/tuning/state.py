"""What a search knows so far, as one JSON file. It is replaced as a whole, so a `kill -9` never leaves half of it."""

import json
import os
import time
from pathlib import Path
from typing import Any

FILE = "tune.json"


class State:
    """A dict on disk. `spent` counts the seconds of all sessions of this search."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.file = folder / FILE
        self._since = time.monotonic()
        self.resumed = self.file.exists()
        if not self.resumed:
            self.data: dict[str, Any] = {"identity": identity, "spent": 0.0, "trials": {}, "measured": {}}
            return
        try:
            self.data = json.loads(self.file.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise ValueError(f"{self.file} cannot be read ({error}); remove the folder, or choose another") from error
        if self.data["identity"] != json.loads(json.dumps(identity)):
            raise ValueError(
                f"{folder} holds a search on other data or with other settings (see {self.file}); choose another "
                "folder, or remove it"
            )

    @property
    def spent(self) -> float:
        return float(self.data["spent"]) + time.monotonic() - self._since

    def save(self, **more: Any) -> None:
        """Write everything, with `more` on top, so that a reader sees either the old state or the new one."""
        self.data["spent"], self._since = self.spent, time.monotonic()
        self.data.update(more)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(f".{os.getpid()}.part")
        with part.open("w", encoding="utf-8") as handle:
            json.dump(self.data, handle, indent=1)
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(self.file)
