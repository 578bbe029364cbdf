"""The columns of a table: texts, words and labels. Any other value is an error that names its file, row and column."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datamux.tasks.files import BadFile, Row


def read_texts(rows: list[Row], column: str, source: Path) -> list[str]:
    """A column of texts, none of them blank."""
    for number, text in _cells(rows, column):
        if not _is_text(text):
            raise BadFile(source, f"{_shown(text)} is not a text", number, column)
    return [row[column] for row in rows]


def read_words(rows: list[Row], column: str, source: Path) -> list[list[str]]:
    """A column of words: lists, or (as csv has it) strings that are split at white space."""
    found = []
    for number, value in _cells(rows, column):
        words = value.split() if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not words or not all(_is_text(word) for word in words):
            raise BadFile(source, f"{_shown(value)} is not a list of words", number, column)
        found.append(list(words))
    return found


def read_tags(rows: list[Row], column: str, source: Path, words: list[list[str]]) -> list[list[Any]]:
    """A column of tags, one for each word of the row."""
    found = []
    for (number, value), row_words in zip(_cells(rows, column), words, strict=True):
        tags = value.split() if isinstance(value, str) else value
        if not isinstance(tags, list | tuple) or not all(_is_label(tag) for tag in tags):
            raise BadFile(source, f"{_shown(value)} is not a list of tags", number, column)
        if len(tags) != len(row_words):
            raise BadFile(source, f"{len(row_words)} words but {len(tags)} tags", number, column)
        found.append(list(tags))
    return found


def read_labels(rows: list[Row], column: str, source: Path) -> list[Any]:
    """A column of labels: one in every row, or a list in every row (in csv written as JSON)."""
    found = _unfolded(rows, column, source)
    several = isinstance(found[0], list | tuple)
    for number, value in enumerate(found, 1):
        if isinstance(value, list | tuple) != several:
            raise BadFile(source, f"{_shown(value)} is {'not ' if several else ''}a list, unlike row 1", number, column)
        labels = value if several else (value,)
        if not all(_is_label(one) for one in labels):
            raise BadFile(source, f"{_shown(value)} is not a label", number, column)
        if len(set(labels)) < len(labels):
            problem = f"{_shown(value)} has a label twice; if these are tags, the text must be words (--token-level)"
            raise BadFile(source, problem, number, column)
    if several and not any(found):
        raise BadFile(source, "no row has a label", column=column)
    return found


def _unfolded(rows: list[Row], column: str, source: Path) -> list[Any]:
    """Parse lists that csv holds as text, like ["a", "b"]. If only some rows have brackets and none of these is a list,
    the brackets belong to names.
    """
    values = [row[column] for row in rows]
    bracketed = [isinstance(value, str) and value.startswith("[") and value.endswith("]") for value in values]
    found = [_parsed(value) if folded else value for value, folded in zip(values, bracketed, strict=True)]
    if not all(bracketed) and not any(isinstance(value, list) for value in found):
        return values
    for number, (value, folded) in enumerate(zip(found, bracketed, strict=True), 1):
        if folded and not isinstance(value, list):
            raise BadFile(source, f'{value} is not a list; write lists as ["a", "b"]', number, column)
    return found


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


def _cells(rows: list[Row], column: str) -> Iterator[tuple[int, Any]]:
    return ((number, row[column]) for number, row in enumerate(rows, 1))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_label(value: Any) -> bool:
    """A name or a number. "nan" is how tables write an empty cell."""
    if isinstance(value, str):
        return bool(value.strip()) and value.strip().lower() != "nan"
    return isinstance(value, int | float) and math.isfinite(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
