"""How rules read the figures at the mini scale: always at every N, and only where something was learned.

Where both sides of a comparison guess, they are alike whatever the paper says. Such points are left out, and a verdict
that has lost points holds in part at most.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from datamux.reproduce.catalogue.mini import SIZES
from datamux.reproduce.paper import text_figures as text
from datamux.reproduce.paper.all_figures import figure
from datamux.reproduce.paper.figure import Row
from datamux.reproduce.paper.verdict import NotRun, Verdict, Word, at_most_in_part, known, share

WIDTH, PAPER_WIDTH = 120, 768  # of the encoders: which N leaves how many dimensions per instance
GUESSING = {"sst2": 50.2, "qqp": 51.0, "qnli": 50.5, "mnli": 35.4, "conll2003": 0.0}  # the most frequent class
SAYS = 5.0  # points above guessing: then a task says something at this scale
NOISE = 2.0  # points that differ between runs by themselves, in the mean of three seeds
TASK_NOISE = 3.0  # the same, where there is one seed
NOTHING_LEARNED = "Nothing was learned at this scale: wherever this could be compared, both sides guess."
TASK_OF = {metric: task for task, metric in text.METRICS.items()}
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


def learned(metric: str, *scores: float) -> bool:
    """Whether one of these scores is beyond guessing. Nobody guesses words: retrieval always says something."""
    return metric not in TASK_OF or max(scores) >= GUESSING[TASK_OF[metric]] + SAYS


@dataclass(frozen=True)
class Pair:
    """The scores of two sides at one place, such as "N = 2"."""

    metric: str
    where: str
    first: float
    second: float

    @property
    def apart(self) -> float:
        """How many points the second side is above the first."""
        return self.second - self.first

    @property
    def says_something(self) -> bool:
        return learned(self.metric, self.first, self.second)


def pairs_of(name: str, one: str, other: str, metrics: Sequence[str], sizes: Sequence[int] = SIZES) -> list[Pair]:
    """Two series of a figure, side by side at every N of every metric."""
    found = []
    for metric in metrics:
        first, second = mini(name, metric, one, sizes), mini(name, metric, other, sizes)
        found += [Pair(metric, f"N = {n}", first[n], second[n]) for n in sizes]
    return found


def compared(pairs: Sequence[Pair], judge: Callable[[Sequence[Pair]], Word], before: str) -> Verdict:
    """The verdict by the pairs that say something, and their differences in words."""
    told = [pair for pair in pairs if pair.says_something]
    return limited(
        lambda: judge(told), [(pair.metric, pair.where) for pair in told], len(pairs), f"{before}: {apart(told)}."
    )


def not_worse(told: Sequence[Pair]) -> Word:
    """Whether the second side is as good as the first, apart from noise: at all points, at some or at none."""
    return share(sum(pair.apart >= -TASK_NOISE for pair in told), len(told))


def limited(word: Callable[[], Word], told: Sequence[tuple[str, str]], of: int, because: str) -> Verdict:
    """A verdict that rests on the points (metric, place) of `told`, out of `of` points that the claim is about."""
    if not told:
        return Verdict("cannot be tested here", NOTHING_LEARNED)
    if len(told) == of:
        return Verdict(word(), because)
    only = f"At this scale this can be compared only where something was learned: {_by_metric(told)}."
    return Verdict(at_most_in_part(word()), f"{because} {only}")


def apart(pairs: Iterable[Pair]) -> str:
    """The differences that say something, in words: "SST-2 accuracy: +1.2 at N = 2, -3.0 at N = 5"."""
    told = (pair for pair in pairs if pair.says_something)
    return _by_metric((pair.metric, f"{pair.apart:+.1f} at {pair.where}") for pair in told) or "both sides guess"


def _by_metric(said: Iterable[tuple[str, str]]) -> str:
    """What is said of each metric, once: "SST-2 accuracy: N = 2, N = 5; QQP accuracy: N = 2"."""
    words: dict[str, dict[str, None]] = {}
    for metric, word in said:
        words.setdefault(metric, {})[word] = None
    return "; ".join(f"{metric}: {', '.join(some)}" for metric, some in words.items())
