"""What a file format is: how its rows are read and written, and what is known about its columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Origin:
    """Where written rows were read, for a format whose columns have types."""

    file: Path
    numbers: Sequence[int]  # of the rows in that file, counted from 1
    added: Mapping[str, Any]  # columns that the file does not have, each with an example of its values


def nothing_to_check() -> None:
    """For a format that needs no further library."""


@dataclass(frozen=True)
class Format:
    """A kind of table.

    `read` gives every row with a description of its problem, or None. `header` gives the columns, which a file then has
    even without rows; it is None if every row names its own. `write` writes rows; `columns` are all that they have, in
    order. `by_lines` says whether a file may be cut at any line break. `check` raises if a library is missing.
    """

    read: Callable[[Path], Iterator[tuple[Row, str | None]]]
    write: Callable[[Path, Sequence[Row], Sequence[str], Origin | None], None]
    header: Callable[[Path], list[str]] | None = None
    by_lines: bool = False
    check: Callable[[], object] = nothing_to_check


class BadFile(ValueError):
    """A file that cannot be read as it should be."""

    def __init__(self, file: Path, problem: str, row: int | None = None, column: str | None = None) -> None:
        place = str(file)
        if row is not None:
            place += f", row {row}"
        if column is not None:
            place += f", column {column!r}"
        super().__init__(f"{place}: {problem}")


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


def printable(text: str) -> str:
    """Text that was read with `surrogateescape`, with a replacement sign for every byte that is not text."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
