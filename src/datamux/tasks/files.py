"""Read rows from csv, tsv, jsonl and parquet, and lines from text. A bad file is named with its row and column.

This file knows nothing about tasks or labels. Row numbers count data rows from 1, as a person would.
"""

import csv
import gzip
import json
import lzma
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from datamux.errors import import_extra

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
    readers = {".jsonl": _read_jsonl, ".csv": _read_csv, ".tsv": _read_csv, ".parquet": _read_parquet}
    suffix = file.suffix.lower()
    if suffix not in readers:
        raise BadFile(file, f"unknown kind of file {suffix!r}; allowed: {', '.join(SUFFIXES)}")
    return readers[suffix](file)


def header_of(file: Path) -> list[str]:
    """The columns in the header of a file, which it has even without rows; JSON lines have no header."""
    suffix = file.suffix.lower()
    if suffix in (".csv", ".tsv"):
        with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as handle:
            return _csv_header(file, _csv_reader(file, handle))
    if suffix == ".parquet":
        return list(need_pyarrow().read_schema(file).names)
    return [] if suffix == ".jsonl" else ["text"]


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


def wrong_bytes(*texts: str) -> str | None:
    """What is wrong with texts that were read with `surrogateescape`, if anything is."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            byte = ord(text[error.start]) - 0xDC00
            what = f"byte 0x{byte:02x}" if 0x80 <= byte <= 0xFF else "half a character"
            return f"is not UTF-8: {what} at letter {error.start + 1}"
    return None


def _read_jsonl(file: Path) -> Iterator[tuple[Row, str | None]]:
    with file.open(encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            text = line.strip()
            if not text:
                continue
            problem = wrong_bytes(text)
            row: Any = None
            try:
                row = json.loads(text)
            except json.JSONDecodeError as error:
                problem = problem or f"is not JSON: {error}"
            if problem is None and not isinstance(row, dict):
                problem = "is not a JSON object"
            yield (row, None) if problem is None else ({"line": printable(text)}, problem)


def _read_csv(file: Path) -> Iterator[tuple[Row, str | None]]:
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as handle:
        lines = _Lines(handle)
        reader = _csv_reader(file, lines)
        header = _csv_header(file, reader)
        spare = "extra"  # where fields go that the header has no name for
        while spare in header:
            spare = f"_{spare}"
        while True:
            lines.begin_row()
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:  # a quote that is never closed runs on to the end of the file
                yield {"line": printable(lines.put_back().rstrip("\r\n"))}, f"is not well-formed: {error}"
                reader = _csv_reader(file, lines)
                continue
            if not cells:
                continue
            problem = wrong_bytes(*cells)
            if len(cells) != len(header):
                problem = problem or f"has {len(cells)} fields, and the header {len(header)}"
            cells = [printable(cell) for cell in cells] if problem else cells
            row: Row = dict(zip(header, cells, strict=False))
            yield (row | {spare: cells[len(header) :]} if len(cells) > len(header) else row), problem


class _Lines:
    """The lines of a file. The lines of the current row can be read a second time."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines, self.again, self.taken = iter(lines), deque[str](), list[str]()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self.again.popleft() if self.again else next(self.lines)
        self.taken.append(line)
        return line

    def begin_row(self) -> None:
        self.taken.clear()

    def put_back(self) -> str:
        """The first line of the current row; the lines after it will be read again."""
        first, *others = self.taken
        self.again.extendleft(reversed(others))
        return first


def _csv_reader(file: Path, lines: Iterable[str]) -> Any:
    csv.field_size_limit(2**31 - 1)  # a long text is still a text
    return csv.reader(lines, delimiter="\t" if file.suffix.lower() == ".tsv" else ",", strict=True)


def _csv_header(file: Path, reader: Any) -> list[str]:
    try:
        header: list[str] = next(reader, [])
    except csv.Error as error:
        raise BadFile(file, f"its header is not well-formed: {error}") from error
    if problem := wrong_bytes(*header):
        raise BadFile(file, f"its header {problem}")
    if twice := [name for name in header if name and header.count(name) > 1]:
        raise BadFile(file, "is twice in the header", column=twice[0])
    return header


def need_pyarrow() -> Any:
    """The part of pyarrow that reads and writes parquet; raises with the name of the extra to install."""
    return import_extra("pyarrow.parquet", "parquet files need", "train")


def _read_parquet(file: Path) -> Iterator[tuple[Row, str | None]]:
    parquet = need_pyarrow()
    import pyarrow

    try:
        for batch in parquet.ParquetFile(file).iter_batches():
            yield from ((row, None) for row in batch.to_pylist())
    except pyarrow.ArrowException as error:
        raise BadFile(file, f"is not a parquet file: {error}") from error


def printable(text: str) -> str:
    """Text that was read with `surrogateescape`, with a replacement sign for every byte that is not text."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
