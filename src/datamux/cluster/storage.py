"""The output folder, wherever fsspec can write. A file appears in one piece or not at all."""

import json
import os
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

from datamux.cluster.names import UNDER_WAY
from datamux.cluster.sources import open_place


class OutputFolder:
    """A folder for parts, errors and what is needed to go on after an interruption."""

    def __init__(self, url: str) -> None:
        self.fs, self.root = open_place(url)
        self.url = str(self.fs.unstrip_protocol(self.root))  # in full: workers have other working folders

    @property
    def local(self) -> Path | None:
        """The folder as a path, if it is one of this machine."""
        return Path(self.root) if "file" in _protocols(self.fs) else None

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; none if there is no such folder."""
        place = self._path(folder)
        self.fs.invalidate_cache()  # another process may have written
        if not self.fs.isdir(place):
            return []
        return sorted(str(found).rstrip("/").rpartition("/")[2] for found in self.fs.ls(place, detail=False))

    def read_json(self, name: str) -> Any:
        """The content of a file, or None if there is no such file."""
        try:
            return json.loads(self.fs.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    def publish(self, file: Path | bytes, name: str) -> None:
        """Put a file, or bytes, into the folder under its name. It replaces a file of that name."""
        waiting, target = self._path(f"{UNDER_WAY}/{uuid4().hex}"), self._path(name)
        for path in (waiting, target):
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        if self.local is not None:
            _publish_locally(file, Path(waiting), Path(target))
            return
        if isinstance(file, bytes):
            self.fs.pipe_file(waiting, file)
        else:
            self.fs.put_file(str(file), waiting)
        self.fs.mv(waiting, target)

    def remove(self, name: str) -> None:
        place = self._path(name)
        if self.fs.exists(place):
            self.fs.rm(place, recursive=True)

    def _path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"


def _publish_locally(file: Path | bytes, waiting: Path, target: Path) -> None:
    """Also after a power cut, a file that is there is complete, and so is every file that was published before it."""
    with waiting.open("wb") as out:
        if isinstance(file, bytes):
            out.write(file)
        else:
            with file.open("rb") as source:
                shutil.copyfileobj(source, out)
        out.flush()
        os.fsync(out.fileno())
    waiting.replace(target)
    if os.name == "posix":  # Windows cannot open a folder
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
