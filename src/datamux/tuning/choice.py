"""Which of the measured models to use, and how sure that is. All are compared on the same samples of the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from datamux.evaluate.frontier import Point
from datamux.evaluate.row_scores import Metric, Numbers, bootstrap, interval, score_of
from datamux.tuning.measure import RIVAL
from datamux.tuning.settings import Wish

TENFOLD = 10.0  # times the throughput: a loss that is worth knowing


@dataclass(frozen=True)
class Judged:
    """A point, the interval of its loss against the reference, and in what share of the samples the wish holds.

    For a mixed point, `ahead` is the share of the samples in which no plain point that is at least as fast scores as
    much, and `competitor` is the best of these plain points, or the fastest of all if none is as fast. `alone` is the
    score of its model for a text that is left over and answered by itself, and `meets_alone` whether that meets the
    wish, too. What was not measured does not meet it.
    """

    point: Point
    drop_low: float
    drop_high: float
    chance: float
    meets: bool
    ahead: float = 1.0
    competitor: Point | None = None
    alone: float | None = None
    meets_alone: bool = True


@dataclass(frozen=True)
class Choice:
    """The chosen model. If nothing `met` the wish, it is the nearest, and `why` says what is missing."""

    best: Judged
    met: bool
    why: str = ""


def judge(points: Sequence[Point], rows: Mapping[str, Numbers], metric: Metric, wish: Wish) -> list[Judged]:
    """Every point with its interval; the first point is the reference.

    `rows` has the numbers of each point's rows, and of the same rows when a mixed point's model answers one at a time.
    """
    scores = bootstrap(metric, *(rows[point.name] for point in points))
    judged = [_judged(point, its, scores[0], wish) for point, its in zip(points, scores, strict=True)]
    mixed = {point.model for point in points if point.group_size > 1}
    plain = [place for place, point in enumerate(points) if point.model not in mixed and point.engine != RIVAL]
    for place, point in enumerate(points):
        if point.group_size > 1:
            as_fast = [other for other in plain if points[other].ratio >= point.ratio]
            best = np.max([scores[other] for other in as_fast], axis=0) if as_fast else np.full_like(scores[0], -np.inf)
            nearest = max((points[other] for other in as_fast), key=lambda other: other.score, default=None)
            fastest = max((points[other] for other in plain), key=lambda other: other.ratio, default=None)
            ahead = float(np.mean(scores[place] > best))
            judged[place] = replace(judged[place], ahead=ahead, competitor=nearest or fastest)
            judged[place] = _with_single_texts(judged[place], points[0], rows, metric, wish)
    return judged


def _with_single_texts(
    one: Judged, reference: Point, rows: Mapping[str, Numbers], metric: Metric, wish: Wish
) -> Judged:
    """A mixed point, judged for single texts by the same rule. How fast they are was not measured."""
    found = rows.get(replace(one.point, group_size=1).name)
    if found is None:
        return replace(one, meets_alone=False)
    alone = score_of(metric, found)
    single = replace(one.point, group_size=1, score=alone, drop=100 * (reference.score - alone))
    scores, of_reference = bootstrap(metric, found, rows[reference.name])
    return replace(one, alone=alone, meets_alone=_judged(single, scores, of_reference, wish).meets)


def _judged(point: Point, scores: Numbers, reference: Numbers, wish: Wish) -> Judged:
    drops = 100 * (reference - scores)
    low, high = interval(drops)
    if wish.min_speed is not None:  # every round of the timing is a sample
        chance = float(np.mean(np.asarray(point.rates or [point.rate]) >= wish.min_speed))
        meets = point.rate >= wish.min_speed and chance >= wish.sure
    elif wish.min_score is not None:
        chance = float(np.mean(100 * scores >= wish.min_score))
        meets = 100 * point.score >= wish.min_score and chance >= wish.sure
    else:
        chance = float(np.mean(drops <= wish.points))
        meets = point.drop <= wish.points and chance >= wish.sure
    return Judged(point, low, high, chance, meets)


def choose(judged: Sequence[Judged], wish: Wish) -> Choice:
    """The fastest that meets the wish; for a wish about speed, the most accurate. Otherwise the nearest, and why."""
    meeting = [one for one in judged if one.meets]
    if wish.min_speed is not None:
        if meeting:
            return Choice(max(meeting, key=lambda one: (one.point.score, one.point.ratio)), True)
        nearest = max(judged, key=lambda one: one.point.rate)
        why = f"nothing answers {wish.min_speed:,.0f} texts per second; the fastest answers {nearest.point.rate:,.0f}"
        return Choice(nearest, False, why)
    if meeting:
        return Choice(max(meeting, key=lambda one: one.point.ratio), True)
    nearest = max(judged, key=lambda one: (one.point.score, one.point.ratio))
    wanted = f"a score of {wish.min_score:g}" if wish.min_score is not None else str(wish)
    why = f"nothing reaches {wanted} with enough certainty; the best scores {100 * nearest.point.score:.1f}"
    return Choice(nearest, False, why)


def better_rival(rivals: Sequence[Judged], choice: Choice, wish: Wish) -> str:
    """One sentence if something from scikit-learn does better what was asked for; it cannot be the folder's model."""
    best = choice.best.point
    for one in sorted(rivals, key=lambda one: -one.point.ratio):
        moved = (one.point.score, one.point.ratio), (best.score, best.ratio)
        ahead = moved[0] > moved[1] if wish.min_speed is not None else one.point.ratio > best.ratio
        if (one.meets and (ahead or not choice.met)) or (
            one.point.score >= best.score and one.point.ratio >= best.ratio
        ):
            kept = f", and it keeps {wish} in {one.chance:.0%} of the samples" if one.meets else ""
            return (
                f"{one.point.model} from scikit-learn does better here: {one.point.ratio:.1f} times the throughput at "
                f"{100 * one.point.score:.1f}{kept}. Use that."
            )
    return ""


def smallest_loss(judged: Sequence[Judged], times: float) -> Judged | None:
    """The most accurate one that has at least so many times the throughput of the reference; None if there is none."""
    fast = [one for one in judged if one.point.ratio >= times]
    return max(fast, key=lambda one: (one.point.score, one.point.ratio)) if fast else None


def tenfold_sentence(found: Judged | None) -> str:
    """The smallest loss that buys ten times the throughput."""
    if found is None:
        return f"Nothing that was trained has {TENFOLD:g} times the throughput of the reference."
    return (
        f"The smallest loss for {TENFOLD:g} times the throughput is {found.point.drop:+.1f} points "
        f"({found.drop_low:+.1f} to {found.drop_high:+.1f}): {found.point.name}, with {found.point.ratio:.1f} times."
    )


def recommendation(
    choice: Choice, judged: Sequence[Judged], metric: Metric, rows: int, wish: Wish, rivals: Sequence[Judged] = ()
) -> list[str]:
    """What to use and how sure that is, in three sentences."""
    best, reference = choice.best, judged[0].point
    lead = f"Use {best.point.name}" if choice.met else f"{choice.why[0].upper()}{choice.why[1:]}: {best.point.name}"
    speed = f"{best.point.ratio:.1f} times the throughput of {reference.name} ({best.point.rate:,.0f} texts per second)"
    loss = best.point.drop
    moved = (
        f"loses {loss:.1f} points"
        if loss >= 0.05
        else f"gains {-loss:.1f} points"
        if loss <= -0.05
        else "loses nothing"
    )
    scores = f"{100 * reference.score:.1f} to {100 * best.point.score:.1f}"
    first = f"{lead}: {speed}, and it {moved} of {metric.name} ({scores})."
    second = (
        f"On {rows:,} rows that nothing was trained on, its loss lies between {best.drop_low:+.1f} and "
        f"{best.drop_high:+.1f} points (95% interval)"
    )
    samples = "rounds of the timing" if wish.min_speed is not None else "random samples of these rows"
    second += f", and it keeps {wish} in {best.chance:.0%} of the {samples}."
    if len(judged) > 2:
        second += f" It was chosen among {len(judged)} on these very rows, so expect a little more loss on others."
    return [first, second, _about_multiplexing(judged, rivals)]


def _about_multiplexing(judged: Sequence[Judged], rivals: Sequence[Judged]) -> str:
    """Where multiplexing ended up, which is what this package is about."""
    mixed = [one for one in judged if one.point.group_size > 1]
    if not mixed:
        return "No multiplexed model was among the finalists."
    on_frontier = [one for one in mixed if one.point.best]
    if not on_frontier:
        best = max(mixed, key=lambda one: one.point.score)
        return (
            f"Multiplexing is not on the frontier here: its best, {best.point.name}, scores "
            f"{100 * best.point.score:.1f} at {best.point.ratio:.1f} times the throughput (it loses "
            f"{best.drop_low:.1f} to {best.drop_high:.1f} points), and something else is both faster and better."
        )
    names = ", ".join(
        f"{one.point.name} ({one.point.ratio:.1f} times the throughput, and it loses {one.drop_low:.1f} to "
        f"{one.drop_high:.1f} points; {_how_sure(one)}{_beaten_by(one, rivals)})"
        for one in on_frontier
    )
    return f"Multiplexing is on the frontier with {names}."


def _how_sure(one: Judged) -> str:
    """How sure it is that a mixed point belongs on the frontier, and which plain one is nearest."""
    plain = one.competitor
    if plain is None:
        return "there was no plain model to compare it with"
    nearest = f"the nearest is {plain.name} with {100 * plain.score:.1f} at {plain.ratio:.1f} times the throughput"
    if plain.ratio < one.point.ratio:
        return f"no plain model is as fast, {nearest}"
    return f"in {one.ahead:.0%} of the samples no plain model that is as fast scores as much, {nearest}"


def _beaten_by(one: Judged, rivals: Sequence[Judged]) -> str:
    """Which rival is both better and faster, if one is. Rivals are not on the frontier, which holds our models."""
    better = [r.point.model for r in rivals if r.point.score >= one.point.score and r.point.ratio >= one.point.ratio]
    return f"; {better[0]} is both faster and better" if better else ""
