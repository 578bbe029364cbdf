"""What a column of labels means: one name of several, several names at once, a number, or one tag per word."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

WHOLE = re.compile(r"([+-]?[0-9]+)(\.0*)?")
Problem = Literal["single_label_classification", "multi_label_classification", "regression"]


@dataclass(frozen=True)
class Labels:
    """The names of the labels, in the order of their numbers. A regression has one, "score".

    `numbered`: the file may hold a label's number instead of its name (a task whose names we know, as on the Hub).
    Otherwise a number in the file is a name like any other.
    """

    names: tuple[str, ...]
    problem: Problem = "single_label_classification"
    numbered: bool = False

    def encode(self, value: Any) -> int | float | list[float]:
        """A label as it stands in a file -> what a model is trained with."""
        if self.problem == "regression":
            number = _number(value)
            if number is None:
                raise ValueError(f"{value!r} is not a number")
            return number
        if self.problem == "multi_label_classification":
            if not isinstance(value, list | tuple):
                raise ValueError(f"{value!r} is not a list of labels")
            chosen = {self._index(name) for name in value}
            return [float(i in chosen) for i in range(len(self.names))]
        return self._index(value)

    def __str__(self) -> str:
        """What the column was taken for."""
        if self.problem == "regression":
            return "numbers"
        shown = ", ".join(self.names[:10]) + (", ..." if len(self.names) > 10 else "")
        several = "several of " if self.problem == "multi_label_classification" else ""
        return f"{several}{len(self.names)} labels: {shown}"

    def _index(self, value: Any) -> int:
        for name in (str(value), _name(value)):
            if name in self.names:
                return self.names.index(name)
        if self.numbered and isinstance(value, int) and 0 <= value < len(self.names):
            return value
        shown = ", ".join(self.names[:20]) + (", ..." if len(self.names) > 20 else "")
        raise ValueError(f"label {value!r} is not one of {shown}")


def find_labels(values: Sequence[Any], names: Sequence[str] | None = None) -> Labels:
    """Find out from its values what a label column means. `names` are names known beforehand, in order of number."""
    if isinstance(values[0], list | tuple):
        found = tuple(names) if names is not None else _names([one for value in values for one in value])
        return Labels(found, "multi_label_classification")
    if names is not None:
        return Labels(tuple(names), numbered=True)
    numbers = [_number(value) for value in values]
    if None not in numbers and any(number != int(number) for number in numbers if number is not None):
        return Labels(("score",), "regression")
    return Labels(_names(values))


def find_tags(values: Sequence[Sequence[Any]], names: Sequence[str] | None = None) -> Labels:
    """The tags in a column of tags, "O" first: where all tags are equally likely, the answer is then "no name"."""
    if names is not None:
        return Labels(tuple(names), numbered=True)
    return Labels(tuple(sorted({_spelt(tag) for row in values for tag in row}, key=lambda tag: (tag != "O", tag))))


def _number(value: Any) -> float | None:
    if isinstance(value, str) and "_" in value:
        return None  # Python would read 1_1 as 11
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _names(values: Sequence[Any]) -> tuple[str, ...]:
    """The classes among the values: whole numbers sorted by size, anything else alphabetically."""
    numbers = {_whole(value) for value in values}
    if None not in numbers:
        return tuple(str(number) for number in sorted(number for number in numbers if number is not None))
    return tuple(sorted({_spelt(value) for value in values}))


def _spelt(value: Any) -> str:
    """A string as it is written, a number always in the same way."""
    return value if isinstance(value, str) else _name(value)


def _name(value: Any) -> str:
    """One spelling for a whole number: 1, 1.0, "1.0" and "01" are the same class."""
    number = _whole(value)
    return str(value) if number is None else str(number)


def _whole(value: Any) -> int | None:
    """The value as an exact whole number; None if it is not written as one, as in "1e5"."""
    if isinstance(value, str):
        found = WHOLE.fullmatch(value.strip())
        return int(found[1]) if found else None
    if isinstance(value, int):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None
