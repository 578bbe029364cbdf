"""The files of a job: a file, a folder, a glob or an address that fsspec knows, such as s3://bucket/reviews/*.jsonl."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fsspec
from fsspec.core import url_to_fs

from datamux.inference.files import INPUTS

logger = logging.getLogger(__name__)
ALLOWED = f"{', '.join(INPUTS)}, and all but parquet also compressed: .gz, .bz2, .xz"
SHOWN = 5  # names of files that are left out
COMPRESSED = (".gz", ".bz2", ".xz")  # after the suffix of the file itself
MAGIC = "*?["  # signs that make a path a glob
STAMPS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated")  # as file systems name them


@dataclass(frozen=True)
class SourceFile:
    """A file of the input. `stamp` changes when its content does."""

    url: str
    size: int  # in bytes; 0 if a server does not tell it
    stamp: str

    @property
    def suffix(self) -> str:
        return suffix_of(self.url)

    @property
    def compressed(self) -> bool:
        return self.url.lower().endswith(COMPRESSED)


def find_files(source: str) -> list[SourceFile]:
    """The files that `source` names, by name. Names that begin with a dot or an underscore are left out of folders."""
    fs, path = open_place(source)
    if is_glob(fs, path):
        found = {name: about for name, about in fs.glob(path, detail=True).items() if _is_file(fs, name, about)}
    elif fs.isdir(path):
        found = _files_below(fs, path)
    elif fs.exists(path):
        found = {path: fs.info(path)}
    else:
        raise ValueError(f"{source}: no such file or folder")
    wanted = sorted(name for name in found if _can_be_read(name))
    for name in wanted:
        _check_link(fs, name, found[name])
    others = sorted(name.rpartition("/")[2] for name in found.keys() - set(wanted))
    if not wanted:
        kinds = f" ({len(others)} files of other kinds)" if others else ""
        raise ValueError(f"{source} has no file that can be read{kinds}; allowed: {ALLOWED}")
    if others:
        names = ", ".join(others[:SHOWN]) + (", ..." if len(others) > SHOWN else "")
        logger.warning("%d files of other kinds are left out: %s; read are %s", len(others), names, ALLOWED)
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


def is_glob(fs: Any, path: str) -> bool:
    """Whether a path is a pattern: the name of a file may have the same signs."""
    return any(sign in path for sign in MAGIC) and not fs.exists(path)


def suffix_of(path: str) -> str:
    """What kind of file this is, also if it is compressed."""
    name = path.rpartition("/")[2].lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return "." + name.rpartition(".")[2] if "." in name else ""


def _can_be_read(path: str) -> bool:
    suffix = suffix_of(path)
    return suffix in INPUTS and not (suffix == ".parquet" and path.lower().endswith(COMPRESSED))


def _files_below(fs: Any, folder: str, above: tuple[str, ...] = ()) -> dict[str, Mapping[str, Any]]:
    """The files of a folder and of the folders in it, also of linked ones, which fsspec does not enter.

    `above` are the real folders from which links have led here.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for name, about in fs.find(folder, detail=True).items():
        if _hidden(name[len(folder) :]):
            continue
        if about.get("islink") and fs.isdir(name):
            target, here = os.path.realpath(name), os.path.realpath(os.path.dirname(name))
            if any(os.path.commonpath([target, place]) == target for place in (*above, here)):
                raise ValueError(f"{name} is a link to a folder that contains it ({target}); remove the link")
            found |= _files_below(fs, name, (*above, here))
        elif _is_file(fs, name, about):
            found[name] = about
    return found


def _is_file(fs: Any, path: str, about: Mapping[str, Any]) -> bool:
    """Whether it is a file, or a link to one, also to one that is missing: fsspec calls links "other"."""
    if about.get("islink"):
        return not fs.isdir(path)
    return about["type"] == "file" or (about["type"] != "directory" and bool(fs.isfile(path)))


def _check_link(fs: Any, path: str, about: Mapping[str, Any]) -> None:
    """The rows of a file that is missing must not be missing silently."""
    if about.get("islink") and not fs.exists(path):
        raise ValueError(
            f"{path} is a link to {about['destination']}, which does not exist; remove the link, or put the file there"
        )


def _described(fs: Any, path: str, about: Mapping[str, Any]) -> SourceFile:
    if about.get("islink"):
        about = {**about, "mtime": os.stat(path).st_mtime}  # of the file, and not of the link to it
    stamp = next((str(about[name]) for name in STAMPS if about.get(name)), "")
    return SourceFile(fs.unstrip_protocol(path), int(about["size"] or 0), stamp)


def _hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.split("/"))
