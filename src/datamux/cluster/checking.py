"""Mistakes that can be found before a file job begins, so that they leave nothing behind and need no cluster."""

import tempfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from lzma import LZMAError
from pathlib import Path

from datamux.cluster.cutting import cut_out
from datamux.cluster.manifest import Settings
from datamux.cluster.shards import BYTES, Shard
from datamux.cluster.sources import SourceFile, open_place
from datamux.grouping import check_group_size
from datamux.hub.loading import load_config
from datamux.inference.files import LINES, answer_names
from datamux.tasks.files import format_of, header_of, iterate_rows, need_pyarrow
from datamux.zoo import find_model

FILES = 8  # of the input are looked at
SAMPLE = 1 << 20  # bytes of each


def check_job(files: Sequence[SourceFile], settings: Settings) -> None:
    """Raise if the group size does not fit the model, or if no row that was looked at has the columns of texts."""
    if settings.group_size is not None:
        check_group_size(settings.group_size, getattr(load_config(find_model(settings.model)), "num_instances", 1))
    if ".parquet" in {f".{settings.format}", *(file.suffix for file in files)}:
        need_pyarrow()
    wrong: tuple[str, list[str]] | None = None
    taken = answer_names(settings.prefix)
    for file in islice(files, FILES):
        for names in _columns(file):
            for column in taken:
                if column in names:
                    problem = "is where an answer may go; choose other names with --prefix"
                    raise ValueError(f"{file.url}, column {column!r}: {problem}")
            if all(column in names for column in settings.text):
                return
            wrong = wrong or (file.url, names)
    if wrong is not None:
        url, names = wrong
        missing = next(column for column in settings.text if column not in names)
        known = ", ".join(names) or "none"
        raise ValueError(f"{url}, column {missing!r}: no such column; there are: {known}; choose one with --text")


def _columns(file: SourceFile) -> Iterator[list[str]]:
    """The columns of the file, or of each of its first good rows; none of a file that a worker will report."""
    with tempfile.TemporaryDirectory(prefix="datamux-") as place:
        try:
            if file.suffix == ".parquet":
                fs, path = open_place(file.url)
                with fs.open(path, "rb") as handle:
                    yield list(need_pyarrow().read_schema(handle).names)
                return
            if not file.size:
                return  # it is empty, or a server does not tell its size and can only send all of it
            stop = SAMPLE if file.compressed else min(file.size, SAMPLE)
            piece = cut_out(Shard(0, file.url, BYTES, 0, stop, 0), Path(place))
            if file.suffix == LINES:
                return  # lines have no columns
            if format_of(piece).header is None:
                yield from (list(row) for row, problem in iterate_rows(piece) if problem is None)
            else:
                yield header_of(piece)
        except (ValueError, OSError, EOFError, LZMAError, zlib.error):
            return
