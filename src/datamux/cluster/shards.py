"""Cuts the input into shards: pieces that one worker answers in one go. Reads no rows, only sizes."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from datamux.cluster.sources import SourceFile, open_place
from datamux.inference.files import LINES
from datamux.tasks.files import format_of, need_pyarrow

LARGEST, SMALLEST = 8 << 20, 256 << 10  # bytes of a shard, unless the caller chooses
LARGEST_GROUP = 64 << 20  # bytes of a parquet row group that is not split
SHARDS_PER_WORKER = 4  # of a small input, so that all workers end at about the same time
FOOTERS = 16  # parquet footers that are read at once
WHOLE, BYTES, ROWS = "whole", "bytes", "rows"


@dataclass(frozen=True)
class Shard:
    """A piece of a file: all of it, the lines that begin within a range of bytes, or a range of rows."""

    number: int
    url: str
    cut: str
    start: int
    stop: int
    size: int  # in bytes, for the progress bar

    @property
    def name(self) -> str:
        return f"{self.number:06d}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def shard_size(files: Sequence[SourceFile], workers: int) -> int:
    """How many bytes a shard should have."""
    return max(SMALLEST, min(LARGEST, _share(files, workers)))


def largest_group(files: Sequence[SourceFile], workers: int) -> int:
    """How many bytes a parquet row group may have that is one shard; a small input has work for all workers first.

    Whoever reads a part of a row group must decode what is before it, so every split costs a part of the reading again.
    """
    return max(SMALLEST, min(LARGEST_GROUP, _share(files, workers)))


def _share(files: Sequence[SourceFile], workers: int) -> int:
    return sum(file.size for file in files) // (SHARDS_PER_WORKER * max(1, workers)) + 1


def plan_shards(files: Sequence[SourceFile], size: int, group: int | None = None) -> list[Shard]:
    """The shards of all files, in the order of the files and of their rows.

    Parquet row groups of up to `group` bytes, by default `size`, stay whole.
    """
    group = max(size, group or size)
    with ThreadPoolExecutor(FOOTERS) as pool:
        pieces = [piece for some in pool.map(lambda file: list(_pieces(file, size, group)), files) for piece in some]
    return [Shard(number, *piece) for number, piece in enumerate(pieces)]


def _pieces(file: SourceFile, size: int, group: int) -> Iterator[tuple[str, str, int, int, int]]:
    groups = _row_groups(file) if file.suffix == ".parquet" else None
    if groups is not None:
        for start, stop, share in _row_ranges(*groups, size, group):
            yield file.url, ROWS, start, stop, share
    elif _can_be_cut(file):
        parts = max(1, -(-file.size // size))
        cuts = [file.size * part // parts for part in range(parts + 1)]
        for start, stop in pairwise(cuts):
            yield file.url, BYTES, start, stop, stop - start
    else:
        # A line of a csv file may be the middle of a quoted text, and a compressed file is read from its beginning, so
        # only the whole file can be read safely. Of a parquet file that cannot be read, a worker says what is wrong.
        yield file.url, WHOLE, 0, file.size, file.size


def _can_be_cut(file: SourceFile) -> bool:
    """Whether it may be cut at any line break, and its size is known."""
    if file.compressed or not file.size:
        return False
    return file.suffix == LINES or format_of(Path(file.url)).by_lines


def _row_ranges(rows: Sequence[int], bytes_of: Sequence[int], size: int, group: int) -> Iterator[tuple[int, int, int]]:
    """(first row, row after the last, bytes): small row groups together, and very large ones in parts."""
    start = row = gathered = 0
    for count, many in zip(rows, bytes_of, strict=True):
        parts = max(1, -(-many // group))
        for part in range(parts):
            row_after = row + count * (part + 1) // parts
            gathered += many // parts
            if (parts > 1 or gathered >= size) and row_after > start:
                yield start, row_after, gathered
                start, gathered = row_after, 0
        row += count
    if row > start or not row:
        yield start, row, gathered


def _row_groups(file: SourceFile) -> tuple[list[int], list[int]] | None:
    """For every row group its rows and its bytes; None if the file cannot be read."""
    parquet = need_pyarrow()
    import pyarrow

    fs, path = open_place(file.url)
    try:
        with fs.open(path, "rb") as handle:
            about = parquet.ParquetFile(handle).metadata
    except (pyarrow.ArrowException, OSError):
        return None
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    return [group.num_rows for group in groups], [group.total_byte_size for group in groups]
