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
    return known(rows, metric, series, (n,))[n]


def known(rows: Sequence[Row], metric: str, series: str, sizes: Sequence[int] = ()) -> dict[int, float]:
    """The numbers of one series by N: those of `sizes`, or all. Raises `NotRun` if any of these was not measured."""
    found = {int(row["n"]): float(row["value"]) for row in rows if (row["metric"], row["series"]) == (metric, series)}
    if not found and len(sizes) != 1:
        raise NotRun(f"{series} ({metric})")
    missing = [n for n in sizes if n not in found]
    if missing:
        raise NotRun(f"{series} at N = {' and '.join(map(str, missing))} ({metric})")
    return {n: found[n] for n in sizes or sorted(found)}


def share(met: int, of: int) -> Word:
    """All of them, some or none. Raises `NotRun` if there are none to judge by."""
    if of == 0:
        raise NotRun("a number to judge by")
    return "holds" if met == of else "holds in part" if met else "does not hold"


def at_most_in_part(word: Word) -> Word:
    """What is left of a verdict if only a part of the claim could be tested."""
    return "holds in part" if word == "holds" else word


def listed(found: dict[int, float], unit: str = "") -> str:
    """The numbers of a series in words: "70.1 at N = 2, 65.0 at N = 5"."""
    return ", ".join(f"{number:.1f}{unit} at N = {n}" for n, number in found.items())


def signed(found: dict[int, float]) -> str:
    """Differences in words: "+1.2 at N = 2, -3.0 at N = 5"."""
    return ", ".join(f"{points:+.1f} at N = {n}" for n, points in found.items())
