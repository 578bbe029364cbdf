"""What a rule says of a claim, and how rules look numbers up. A missing record gives "not run yet", never an error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Literal

from datamux.reproduce.paper.figure import Row

Word = Literal["holds", "holds in part", "does not hold", "cannot be tested here", "not run yet"]


@dataclass(frozen=True)
class Verdict:
    """One word and one sentence with the numbers behind it."""

    word: Word
    because: str


class NotRun(Exception):
    """A rule needs a record that is not there."""


def rule(function: Callable[..., Verdict]) -> Callable[..., Verdict]:
    """A rule whose missing records are reported as such."""

    @wraps(function)
    def checked(*given: object, **options: object) -> Verdict:
        try:
            return function(*given, **options)
        except NotRun as missing:
            return Verdict("not run yet", f"There is no record of {missing}.")

    return checked


def value(rows: Sequence[Row], metric: str, series: str, n: int) -> float:
    """One number of a figure; raises `NotRun` if it was not measured."""
    for row in rows:
        if (row["metric"], row["series"], row["n"]) == (metric, series, n):
            return float(row["value"])
    raise NotRun(f"{series} at N = {n} ({metric})")


def known(rows: Sequence[Row], metric: str, series: str) -> dict[int, float]:
    """All numbers of one series, by N; raises `NotRun` if there are none."""
    found = {int(row["n"]): float(row["value"]) for row in rows if (row["metric"], row["series"]) == (metric, series)}
    if not found:
        raise NotRun(f"{series} ({metric})")
    return dict(sorted(found.items()))


def share(met: int, of: int) -> Word:
    """All of them, some or none."""
    return "holds" if met == of else "holds in part" if met else "does not hold"


def listed(found: dict[int, float], unit: str = "") -> str:
    """The numbers of a series in words: "70.1 at N = 2, 65.0 at N = 5"."""
    return ", ".join(f"{number:.1f}{unit} at N = {n}" for n, number in found.items())
