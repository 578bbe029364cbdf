"""The files of a job: a file, a folder, a glob or an address that fsspec knows, such as s3://bucket/reviews/*.jsonl."""

from dataclasses import dataclass
from typing import Any

import fsspec
from fsspec.core import url_to_fs

from datamux.inference.files import INPUTS

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
        paths = [found for found in fs.glob(path) if fs.isfile(found)]
    elif fs.isdir(path):
        paths = [found for found in fs.find(path) if not _hidden(found[len(path) :])]
    elif fs.exists(path):
        paths = [path]
    else:
        raise ValueError(f"{source}: no such file or folder")
    wanted = sorted(found for found in paths if suffix_of(found) in INPUTS)
    if not wanted:
        others = f" ({len(paths)} files of other kinds)" if paths else ""
        raise ValueError(f"{source} has no file that can be read{others}; allowed: {', '.join(INPUTS)}")
    return [_described(fs, found) for found in wanted]


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


def _described(fs: Any, path: str) -> SourceFile:
    about = fs.info(path)
    stamp = next((str(about[name]) for name in STAMPS if about.get(name)), "")
    return SourceFile(fs.unstrip_protocol(path), int(about["size"]), stamp)


def _hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.split("/"))
