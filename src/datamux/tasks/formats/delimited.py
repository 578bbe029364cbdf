"""csv and tsv: a header, then one row per line, unless a quoted text holds line breaks.

Values that such a file cannot hold are written as JSON.
"""

import csv
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from datamux.tasks.formats.base import BadFile, Format, Origin, Row, printable, wrong_bytes


def delimited_by(delimiter: str) -> Format:
    """The format whose cells are separated by this character."""
    return Format(
        partial(_read, delimiter=delimiter),
        partial(_write, delimiter=delimiter),
        partial(_read_header, delimiter=delimiter),
    )


def _read(file: Path, delimiter: str) -> Iterator[tuple[Row, str | None]]:
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as handle:
        lines = _Lines(handle)
        reader = _reader(lines, delimiter)
        header = _header(file, reader)
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
                reader = _reader(lines, delimiter)
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


def _reader(lines: Iterable[str], delimiter: str) -> Any:
    csv.field_size_limit(2**31 - 1)  # a long text is still a text
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _read_header(file: Path, delimiter: str) -> list[str]:
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as handle:
        return _header(file, _reader(handle, delimiter))


def _header(file: Path, reader: Any) -> list[str]:
    try:
        header: list[str] = next(reader, [])
    except csv.Error as error:
        raise BadFile(file, f"its header is not well-formed: {error}") from error
    if problem := wrong_bytes(*header):
        raise BadFile(file, f"its header {problem}")
    if twice := [name for name in header if name and header.count(name) > 1]:
        raise BadFile(file, "is twice in the header", column=twice[0])
    return header


def _write(file: Path, rows: Sequence[Row], columns: Sequence[str], origin: Origin | None, delimiter: str) -> None:
    with file.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(_LineEnds(handle), columns, delimiter=delimiter, lineterminator="\r\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _cell(value) for name, value in row.items()})


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


class _LineEnds:
    """Ends lines with "\\n". The csv module is told "\\r\\n", or it would not quote a "\\r" within a text."""

    def __init__(self, handle: IO[str]) -> None:
        self.handle = handle

    def write(self, line: str) -> None:
        self.handle.write(line.removesuffix("\r\n") + "\n")
