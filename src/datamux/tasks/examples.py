"""Rows before tokenising: texts, pairs or words, with labels. Each knows which file and row it came from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datamux.tasks.files import BadFile
from datamux.tasks.labels import Labels


@dataclass(frozen=True)
class Examples:
    """The rows of one split: texts (two lists for pairs), words or lines, and one label per row."""

    texts: Sequence[Any]
    pairs: Sequence[str] | None = None
    labels: Sequence[Any] | None = None
    source: Path = Path("rows in memory")
    label_column: str | None = None
    places: Sequence[tuple[Path, int]] | None = None  # file and row of each, where they are not all rows of `source`

    def __len__(self) -> int:
        return len(self.texts)

    def place(self, row: int) -> tuple[Path, int]:
        """The file that a row comes from, and its number there, from 1."""
        return (self.source, row + 1) if self.places is None else self.places[row]

    def first(self, rows: int) -> "Examples":
        """Only the first `rows` rows."""
        return self.only(range(min(rows, len(self))))

    def only(self, rows: Sequence[int]) -> "Examples":
        """Only the rows with these numbers."""

        def some(values: Sequence[Any] | None) -> list[Any] | None:
            return None if values is None else [values[row] for row in rows]

        return replace(
            self,
            texts=some(self.texts) or [],
            pairs=some(self.pairs),
            labels=some(self.labels),
            places=[self.place(row) for row in rows],
        )

    def encoded_labels(self, labels: Labels) -> list[Any]:
        """Every label as `labels` numbers it (a tag list for words); a bad one is named with its row."""
        found: list[Any] = []
        for row, value in enumerate(self.labels or ()):
            try:
                words = isinstance(self.texts[0], list)
                found.append([labels.encode(tag) for tag in value] if words else labels.encode(value))
            except ValueError as error:
                file, number = self.place(row)
                raise BadFile(file, str(error), number, self.label_column) from error
        return found


def joined(parts: Sequence[Examples]) -> Examples:
    """The rows of several `Examples` as one; each row remembers where it came from."""
    first = parts[0]
    return replace(
        first,
        texts=[text for part in parts for text in part.texts],
        pairs=None if first.pairs is None else [pair for part in parts for pair in part.pairs or ()],
        labels=None if first.labels is None else [label for part in parts for label in part.labels or ()],
        places=[part.place(row) for part in parts for row in range(len(part))],
    )
