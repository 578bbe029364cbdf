"""A figure of the paper as data: which records make which line, and where the paper has it.

Its rows have the columns series, n, metric, value, spread, seeds and paper. Values are percent, and spreads are over
seeds, if a figure does not say otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.records import Record, State, count_records, record_state, recorded
from datamux.reproduce.spread import spread_of

COLUMNS = ("series", "n", "metric", "value", "spread", "seeds", "paper")
Row = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """One point of a line. `n` is its place on the x axis; `group_size` is the texts per pass, where that is not n."""

    series: str
    n: int
    metric: str
    experiment: str
    group_size: int | None = None
    paper: float | None = None


@dataclass(frozen=True)
class PaperFigure:
    """`where` is its place in the paper. `experiments` are what has to be run for it. `x` names the axis."""

    name: str
    where: str
    title: str
    experiments: tuple[str, ...]
    rows: Callable[[], list[Row]]
    x: str = "texts per pass (N)"
    draw: Callable[["PaperFigure", Path], None] | None = None  # None: one panel per metric, one line per series

    @property
    def records(self) -> tuple[int, int]:
        """How many of its records are in the package, of how many; each seed has a record of its own."""
        return count_records(EXPERIMENTS[name] for name in self.experiments)

    @property
    def record(self) -> State:
        """Whether its records are in the package."""
        return record_state(EXPERIMENTS[name] for name in self.experiments)


def row(
    series: str, n: int, metric: str, value: float, spread: float = 0.0, seeds: int = 1, paper: float | None = None
) -> Row:
    return dict(zip(COLUMNS, (series, n, metric, value, spread, seeds, paper), strict=True))


def score_rows(points: Sequence[Point], given: Mapping[str, list[Record]] | None = None) -> list[Row]:
    """The scores of the points that have a record: one of those `given` by experiment, or of those in the package."""
    rows = []
    for point in points:
        k = point.n if point.group_size is None else point.group_size
        records = recorded(EXPERIMENTS[point.experiment]) if given is None else given[point.experiment]
        results = [r for record in records for r in record["results"]]
        scores = [100 * r["score"] for r in results if r["group_size"] == k]
        if scores:
            rows.append(
                row(point.series, point.n, point.metric, fmean(scores), spread_of(scores), len(scores), point.paper)
            )
    return rows


def of_points(name: str, where: str, title: str, points: Sequence[Point], **more: Any) -> PaperFigure:
    """A figure of scores."""
    experiments = tuple(dict.fromkeys(point.experiment for point in points))
    return PaperFigure(name, where, title, experiments, lambda: score_rows(points), **more)
