"""What a search knows so far, as one JSON file. It is replaced as a whole, so a `kill -9` never leaves half of it."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

FILE = "tune.json"
CLOCK = "search/spent"  # a file with the seconds alone, written every few seconds
TICK = 10.0  # seconds


class State:
    """A dict on disk. `spent` counts the seconds of all sessions of this search."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.file, self._clock = folder / FILE, folder / CLOCK
        self._since, self._before = time.monotonic(), 0.0
        self.resumed = self.file.exists()
        if not self.resumed:
            self.data: dict[str, Any] = {"identity": identity, "spent": 0.0, "trials": {}, "measured": {}}
            return
        try:
            self.data = json.loads(self.file.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise ValueError(f"{self.file} cannot be read ({error}); remove the folder, or choose another") from error
        self._before = float(self.data["spent"])
        with suppress(OSError, ValueError):  # a long training may have ended without a word
            self._before = max(self._before, float(self._clock.read_text()))
        if self.data["identity"] != json.loads(json.dumps(identity)):
            raise ValueError(
                f"{folder} holds a search on other data or with other settings (see {self.file}); choose another "
                "folder, or remove it"
            )

    @property
    def spent(self) -> float:
        return self._before + time.monotonic() - self._since

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Write down every few seconds how much time was spent, so that a `kill -9` loses none of it."""
        done = Event()

        def tick() -> None:
            while not done.wait(TICK):
                _replace(self._clock, str(self.spent))

        thread = Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def note(self, text: str, tell: Callable[[str], None], *, lasts: bool = False) -> None:
        """Say something that the report will repeat. If it `lasts`, so will the reports of later runs."""
        if lasts:
            self.data.setdefault("lasting_notes", []).append(text)
        self.data["notes"].append(text)
        tell(text)

    def begin_notes(self) -> None:
        """Forget the notes of earlier runs, which each run makes again, except for those about what is done once."""
        self.save(notes=list(self.data.get("lasting_notes", [])))

    def save(self, **more: Any) -> None:
        """Write everything, with `more` on top, so that a reader sees either the old state or the new one."""
        self.data["spent"] = self.spent
        self.data.update(more)
        _replace(self.file, json.dumps(self.data, indent=1))


def _replace(file: Path, text: str) -> None:
    """Write a file so that it is either the old one or the new one, whenever the machine stops."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")
    with part.open("w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    part.replace(file)
