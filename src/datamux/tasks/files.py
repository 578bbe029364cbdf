"""Reads tables of every format, and lines from text. A bad file is named with its row and column.

This file knows nothing about tasks or labels. Row numbers count data rows from 1, as a person would.
"""

import gzip
import lzma
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from datamux.tasks.formats import FORMATS
from datamux.tasks.formats.base import BadFile, Format, Origin, Row, printable, wrong_bytes
from datamux.tasks.formats.parquet import need_pyarrow

__all__ = [
    "TEXT_SUFFIXES",
    "BadFile",
    "Row",
    "check_columns",
    "format_of",
    "header_of",
    "is_table",
    "iterate_lines",
    "iterate_rows",
    "iterate_text_file",
    "need_pyarrow",
    "read_lines",
    "read_table",
    "table_suffixes",
    "write_table",
    "wrong_bytes",
]
TEXT_SUFFIXES = (".txt", ".txt.gz", ".txt.xz")


def table_suffixes() -> tuple[str, ...]:
    """How the names of tables end."""
    return tuple(FORMATS)


def is_table(file: Path) -> bool:
    return file.suffix.lower() in FORMATS


def format_of(file: Path) -> Format:
    """The format of a table, by the end of its name."""
    suffix = file.suffix.lower()
    if suffix not in FORMATS:
        raise BadFile(file, f"unknown kind of file {suffix!r}; allowed: {', '.join(FORMATS)}")
    return FORMATS[suffix]


def read_table(file: Path) -> list[Row]:
    """All rows of `file`, each a dict by column name. The first bad row is an error."""
    rows = []
    for number, (row, problem) in enumerate(iterate_rows(file), 1):
        if problem is not None:
            raise BadFile(file, problem, number)
        rows.append(row)
    return rows


def iterate_rows(file: Path) -> Iterator[tuple[Row, str | None]]:
    """Row by row, each with a description of its problem, or None. Blank lines are skipped."""
    if not file.exists():
        raise BadFile(file, "no such file")
    return format_of(file).read(file)


def header_of(file: Path) -> list[str]:
    """The columns in the header of a table, which it has even without rows; none if every row names its own."""
    header = format_of(file).header
    return [] if header is None else header(file)


def write_table(
    file: Path, kind: Format, rows: Sequence[Row], columns: Sequence[str] = (), origin: Origin | None = None
) -> None:
    """Write rows in the format `kind`. `columns` come first, and then the other columns that the rows have."""
    names = dict.fromkeys([*columns, *(name for row in rows for name in row)])
    kind.write(file, rows, list(names), origin)


def check_columns(file: Path, rows: list[Row], columns: list[str]) -> None:
    """Raise unless every row has a value in every column."""
    if not rows:
        raise BadFile(file, "has no rows")
    for number, row in enumerate(rows, 1):
        for column in columns:
            if column not in row:
                raise BadFile(file, f"no such column; there are: {', '.join(row)}", number, column)
            if row[column] is None or row[column] == "":
                raise BadFile(file, "is empty", number, column)


def read_lines(file: Path) -> Iterator[str]:
    """The lines of a text file that are not blank; .gz and .xz files are unpacked while reading."""
    if not file.exists():
        raise BadFile(file, "no such file")
    with _open(file) as lines:
        try:
            for line in lines:
                if line.strip():
                    yield line.strip()
        except (UnicodeDecodeError, EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise BadFile(file, f"cannot be read as text: {error}") from error


def iterate_text_file(file: Path) -> Iterator[tuple[Row, str | None]]:
    """Every line of a text file as a row, as `iterate_lines` does."""
    with file.open(encoding="utf-8", errors="surrogateescape") as lines:
        yield from iterate_lines(lines)


def iterate_lines(lines: Iterable[str]) -> Iterator[tuple[Row, str | None]]:
    """Every line, blank ones too, as a row with the column "text"; read them with `surrogateescape`."""
    for line in lines:
        text = line.rstrip("\r\n")
        problem = wrong_bytes(text)
        yield {"text": printable(text) if problem else text}, problem


def _open(file: Path) -> IO[str]:
    opener: Any = {".xz": lzma.open, ".gz": gzip.open}.get(file.suffix.lower(), open)
    handle: IO[str] = opener(file, "rt", encoding="utf-8")
    return handle
