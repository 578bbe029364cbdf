"""What a column of labels means: one name of several, several names at once, a number, or a tag a word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Problem = Literal["single_label_classification", "multi_label_classification", "regression"]


@dataclass(frozen=True)
class Labels:
    """The names in order of their number. Regression has one, "score"."""

    names: tuple[str, ...]
    problem: Problem = "single_label_classification"

    def encode(self, value: Any) -> int | float | list[float]:
        """A label as it stands in a file -> what a model is trained with."""
        if self.problem == "regression":
            return float(value)
        if self.problem == "multi_label_classification":
            chosen = {self._number(name) for name in value}
            return [float(i in chosen) for i in range(len(self.names))]
        return self._number(value)

    def _number(self, value: Any) -> int:
        name = str(value)
        if name in self.names:
            return self.names.index(name)
        if isinstance(value, int) and 0 <= value < len(self.names):
            return value
        raise ValueError(f"label {value!r} is not one of {', '.join(self.names[:20])}")


def find_labels(values: Sequence[Any], names: Sequence[str] | None = None) -> Labels:
    """Work out from the values of a label column what it is; `names` are known names in order of their number."""
    if isinstance(values[0], list | tuple):
        found = names or sorted({str(v) for value in values for v in value})
        return Labels(tuple(found), "multi_label_classification")
    if names is not None:
        return Labels(tuple(names))
    numbers = [_number(value) for value in values]
    if all(number is not None for number in numbers):
        if any(number != int(number) for number in numbers if number is not None):
            return Labels(("score",), "regression")
        return Labels(tuple(str(int(n)) for n in sorted({number for number in numbers if number is not None})))
    return Labels(tuple(sorted({str(value) for value in values})))


def find_tags(values: Sequence[Sequence[Any]], names: Sequence[str] | None = None) -> Labels:
    """The tags of a token-level column, "O" first, so that an untrained model's favourite is the harmless one."""
    found = names or sorted({str(tag) for row in values for tag in row}, key=lambda tag: (tag != "O", tag))
    return Labels(tuple(found))


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
