"""How rules read the figures at the mini scale: always at every N, and only tasks that say something there."""

from collections.abc import Sequence

from datamux.reproduce.catalogue.mini import SIZES
from datamux.reproduce.paper import text_figures as text
from datamux.reproduce.paper.all_figures import figure
from datamux.reproduce.paper.figure import Row
from datamux.reproduce.paper.verdict import NotRun, known

WIDTH, PAPER_WIDTH = 120, 768  # of the encoders: which N leaves how many dimensions per instance
GUESSING = {"sst2": 50.2, "qqp": 51.0, "qnli": 50.5, "mnli": 35.4, "conll2003": 0.0}  # the most frequent class
SAYS = 5.0  # points above guessing: then a task says something at this scale
NOISE = 2.0  # points that differ between runs by themselves, in the mean of three seeds
TASK_NOISE = 3.0  # the same, where there is one seed
TASK_METRICS = (text.METRICS["sst2"], text.METRICS["conll2003"])


def rows_of(name: str) -> list[Row]:
    return figure(name).rows()


def mini(name: str, metric: str, series: str, sizes: Sequence[int] = SIZES) -> dict[int, float]:
    """The numbers of a series of a figure, at every N."""
    try:
        return known(rows_of(name), metric, series, sizes)
    except NotRun as missing:
        raise NotRun(f"{missing} at the mini scale") from None


def plain_score(task: str, series: str = text.PLAIN) -> float:
    return mini("tasks", text.METRICS[task], series, (1,))[1]


def lost(task: str, series: str = text.PAPER) -> dict[int, float]:
    """Points that a series loses against the plain model of the paper, by N."""
    base = plain_score(task)
    return {n: base - score for n, score in mini("tasks", text.METRICS[task], series).items()}


def says_something(task: str) -> bool:
    """Whether a plain model learns the task at this scale. If it guesses, nothing can be lost by mixing."""
    return max(plain_score(task, plain) for plain in (text.PLAIN, text.OUR_PLAIN)) >= GUESSING[task] + SAYS


def differences(name: str, one: str, other: str, metrics: Sequence[str]) -> dict[str, dict[int, float]]:
    """How many points the second series is above the first, by metric and by N."""
    found = {}
    for metric in metrics:
        first, second = mini(name, metric, one), mini(name, metric, other)
        found[metric] = {n: second[n] - first[n] for n in SIZES}
    return found
