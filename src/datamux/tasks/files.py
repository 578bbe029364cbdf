"""Read rows from csv, tsv, jsonl and parquet, and lines from text. A bad file is named with its row and column.

Knows nothing of tasks or labels. Row numbers count data rows from 1, as a person would.
"""

import csv
import gzip
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

Row = dict[str, Any]
SUFFIXES = (".jsonl", ".csv", ".tsv", ".parquet")
TEXT_SUFFIXES = (".txt", ".txt.gz", ".txt.xz")


class BadFile(ValueError):
    """A file that cannot be read as it should be."""

    def __init__(self, file: Path, problem: str, row: int | None = None, column: str | None = None) -> None:
        place = str(file)
        if row is not None:
            place += f", row {row}"
        if column is not None:
            place += f", column {column!r}"
        super().__init__(f"{place}: {problem}")


def read_rows(file: Path) -> list[Row]:
    """All rows of `file`, each a dict by column name."""
    if not file.exists():
        raise BadFile(file, "no such file")
    suffix = file.suffix.lower()
    if suffix == ".jsonl":
        return list(_read_jsonl(file))
    if suffix in (".csv", ".tsv"):
        return list(_read_csv(file, "\t" if suffix == ".tsv" else ","))
    if suffix == ".parquet":
        return _read_parquet(file)
    raise BadFile(file, f"unknown kind of file {suffix!r}; allowed: {', '.join(SUFFIXES)}")


def check_columns(file: Path, rows: list[Row], columns: list[str]) -> None:
    """Every row must have every column, and something in it."""
    if not rows:
        raise BadFile(file, "has no rows")
    for number, row in enumerate(rows, 1):
        for column in columns:
            if column not in row:
                raise BadFile(file, f"no such column; there are: {', '.join(row)}", number, column)
            if row[column] is None or row[column] == "":
                raise BadFile(file, "is empty", number, column)


def read_lines(file: Path) -> Iterator[str]:
    """The lines of a text file that have something in them; .gz and .xz are unpacked on the way."""
    if not file.exists():
        raise BadFile(file, "no such file")
    with _open(file) as lines:
        try:
            for line in lines:
                if line.strip():
                    yield line.strip()
        except (UnicodeDecodeError, EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise BadFile(file, f"cannot be read as text: {error}") from error


def _open(file: Path) -> IO[str]:
    opener: Any = {".xz": lzma.open, ".gz": gzip.open}.get(file.suffix.lower(), open)
    handle: IO[str] = opener(file, "rt", encoding="utf-8")
    return handle


def _read_jsonl(file: Path) -> Iterator[Row]:
    for number, line in enumerate(read_lines(file), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadFile(file, f"is not JSON: {error}", number) from error
        if not isinstance(row, dict):
            raise BadFile(file, "is not a JSON object", number)
        yield row


def _read_csv(file: Path, delimiter: str) -> Iterator[Row]:
    with file.open(encoding="utf-8-sig", newline="") as handle:
        reader = csv.DictReader(handle, delimiter=delimiter, strict=True)
        try:
            for number, row in enumerate(reader, 1):
                columns = len(reader.fieldnames or ())
                if None in row:
                    raise BadFile(file, f"has more fields than the {columns} of the header", number)
                if None in row.values():
                    raise BadFile(file, f"has fewer fields than the {columns} of the header", number)
                yield row
        except csv.Error as error:
            raise BadFile(file, f"is not well-formed: {error}", reader.line_num) from error
        except UnicodeDecodeError as error:
            raise BadFile(file, f"is not UTF-8: {error}") from error


def _read_parquet(file: Path) -> list[Row]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("parquet files need: pip install 'datamux[train]'") from error
    try:
        rows: list[Row] = parquet.read_table(file).to_pylist()
    except pyarrow.ArrowException as error:
        raise BadFile(file, f"is not a parquet file: {error}") from error
    return rows
