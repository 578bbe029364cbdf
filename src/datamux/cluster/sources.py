"""The files of a job: a file, a folder, a glob or an address that fsspec knows, such as s3://bucket/reviews/*.jsonl."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fsspec
from fsspec.core import url_to_fs

from datamux.inference.files import INPUTS

logger = logging.getLogger(__name__)
SHOWN = 5  # names of files that are left out
MAGIC = "*?["  # signs that make a path a glob
STAMPS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated")  # as file systems name them


@dataclass(frozen=True)
class SourceFile:
    """A file of the input. `stamp` changes when its content does."""

    url: str
    size: int
    stamp: str

    @property
    def suffix(self) -> str:
        return suffix_of(self.url)


def find_files(source: str) -> list[SourceFile]:
    """The files that `source` names, by name. Names that begin with a dot or an underscore are left out of folders."""
    fs, path = open_place(source)
    if any(sign in path for sign in MAGIC):
        found = {name: about for name, about in fs.glob(path, detail=True).items() if about["type"] == "file"}
    elif fs.isdir(path):
        found = {name: about for name, about in fs.find(path, detail=True).items() if not _hidden(name[len(path) :])}
    elif fs.exists(path):
        found = {path: fs.info(path)}
    else:
        raise ValueError(f"{source}: no such file or folder")
    wanted = sorted(name for name in found if suffix_of(name) in INPUTS)
    others = sorted(name.rpartition("/")[2] for name in found.keys() - set(wanted))
    if not wanted:
        kinds = f" ({len(others)} files of other kinds)" if others else ""
        raise ValueError(f"{source} has no file that can be read{kinds}; allowed: {', '.join(INPUTS)}")
    if others:
        names = ", ".join(others[:SHOWN]) + (", ..." if len(others) > SHOWN else "")
        logger.warning("%d files of other kinds are left out: %s; read are %s", len(others), names, ", ".join(INPUTS))
    return [_described(fs, name, found[name]) for name in wanted]


def open_place(url: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    try:
        fs, path = url_to_fs(url)
    except ValueError as error:  # an unknown protocol
        known = ", ".join(sorted(fsspec.available_protocols()))
        raise ValueError(f"{url}: {error}; known protocols: {known}") from error
    except ImportError as error:  # fsspec says which package is missing
        raise ValueError(f"{url}: {error}") from error
    return fs, str(path).rstrip("/") or "/"


def suffix_of(path: str) -> str:
    name = path.rpartition("/")[2]
    return "." + name.rpartition(".")[2].lower() if "." in name else ""


def _described(fs: Any, path: str, about: Mapping[str, Any]) -> SourceFile:
    stamp = next((str(about[name]) for name in STAMPS if about.get(name)), "")
    return SourceFile(fs.unstrip_protocol(path), int(about["size"]), stamp)


def _hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.split("/"))
