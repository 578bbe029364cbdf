"""Makes a file of its own out of a shard, so that the code that answers files can answer it."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from datamux.cluster.shards import BYTES, ROWS, Shard
from datamux.cluster.sources import open_place, suffix_of
from datamux.tasks.files import need_pyarrow

CHUNK = 1 << 20  # bytes that are read at once
BATCH = 8192  # rows of parquet that are decoded at once


def cut_out(shard: Shard, folder: Path) -> Path:
    """The shard as a file in `folder`, decompressed."""
    target = copy_of(shard, folder)
    fs, path = open_place(shard.url)
    with fs.open(path, "rb", compression="infer") as source:
        if shard.cut == ROWS:
            _copy_rows(source, target, shard.start, shard.stop)
        elif shard.cut == BYTES:
            with target.open("wb") as out:
                _copy_lines(source, out, shard.start, shard.stop)
        else:
            with target.open("wb") as out:
                shutil.copyfileobj(source, out, CHUNK)
    return target


def copy_of(shard: Shard, folder: Path) -> Path:
    """Where `cut_out` puts it."""
    return folder / f"shard{suffix_of(shard.url)}"


def _copy_lines(source: IO[bytes], out: IO[bytes], start: int, stop: int) -> None:
    """Copy the lines whose first byte is in [start, stop). Every line is in exactly one of adjoining ranges."""
    place = _line_start(source, start)
    end = _line_start(source, stop)
    source.seek(place)
    while place < end:
        part = source.read(min(CHUNK, end - place))
        if not part:
            return
        out.write(part)
        place += len(part)


def _line_start(source: IO[bytes], place: int) -> int:
    """Where the first line begins that begins at `place` or later; the end of the file if none does."""
    if place == 0:
        return 0
    source.seek(place - 1)  # a line break right before `place` means that a line begins there
    at = place - 1
    while part := source.read(CHUNK):
        found = part.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(part)
    return at


def _copy_rows(source: IO[bytes], target: Path, start: int, stop: int) -> None:
    """Copy rows [start, stop) of a parquet file, with their types; reads only the row groups that hold them.

    They are decoded in batches, because a row group may be larger than the memory.
    """
    parquet: Any = need_pyarrow()
    file = parquet.ParquetFile(source)
    with parquet.ParquetWriter(target, file.schema_arrow) as writer:
        first = 0
        for number in range(file.num_row_groups):
            rows = file.metadata.row_group(number).num_rows
            if first < stop and first + rows > start:
                for batch in _slices(file.iter_batches(BATCH, row_groups=[number]), start - first, stop - first):
                    writer.write_batch(batch)
            first += rows


def _slices(batches: Iterable[Any], start: int, stop: int) -> Iterator[Any]:
    """Rows [start, stop) of batches that follow each other."""
    first = 0
    for batch in batches:
        begin, end = max(start - first, 0), min(stop - first, batch.num_rows)
        if begin < end:
            yield batch.slice(begin, end - begin)
        first += batch.num_rows
        if first >= stop:
            return
