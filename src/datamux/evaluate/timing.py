"""Instances per second of several contenders, each at its best batch size, in interleaved rounds.

Timings on a shared machine wander. So every round times every contender, and right before and right after it the one
that it is compared with:

    plain  A  plain  B  plain  C  plain        ratio of B = rate of B / rate of plain around it

The median over the rounds is reported with the lowest and the highest.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, median
from typing import Any, Protocol

import torch

# Positions per pass that are tried, up to two sizes beyond the best. Sizes above USUAL take long: only one beyond the
# best is tried, and only where a pass fits into a round.
POSITIONS = (256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768)
USUAL = 8192
BEST = 3  # this many of the sizes run against each other,
TURNS = 5  # in this many turns


class Work(Protocol):
    """Answer this many instances, with about `positions` positions per pass."""

    def __call__(self, instances: int, positions: int) -> None: ...


@dataclass
class Contender:
    """Something that answers instances of about `tokens` tokens each, in groups of `group_size`.

    `against` names the contender that it is compared with, which is the first one unless another is named.
    """

    name: str
    work: Work
    group_size: int = 1
    tokens: float = 32.0
    about: dict[str, Any] = field(default_factory=dict)
    against: str | None = None


@dataclass(frozen=True)
class Speed:
    """What was measured for one contender. Ratios are to the contender it is compared with, round by round."""

    name: str
    group_size: int
    positions: int  # per pass, the best of those tried
    instances: int  # per round
    rates: list[float]  # instances per second, one per round
    ratios: list[float]
    about: dict[str, Any]

    @property
    def rate(self) -> float:
        return median(self.rates)

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    def as_dict(self) -> dict[str, Any]:
        more = {"rate": self.rate, "ratio": self.ratio, "lowest": min(self.ratios), "highest": max(self.ratios)}
        return asdict(self) | more


def compare_speed(
    contenders: Sequence[Contender],
    *,
    rounds: int = 5,
    seconds: float = 1.0,
    samples: int | None = None,
    positions: Sequence[int] = POSITIONS,
    tell: Callable[[str], None] = lambda text: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Speed]:
    """Tune each contender's batch size, then time all of them in turn, round after round.

    A contender's turn in a round takes about `seconds`, or exactly `samples` instances.
    """
    tuned = []
    for contender in contenders:
        tuned.append(tune(contender, positions, seconds / 3, clock))
        tell(f"{contender.name}: about {max(tuned[-1].values()):,.0f} per second")
    sizes = []
    for contender, found in zip(contenders, tuned, strict=True):  # some time later: a disturbance seldom hits both
        sizes.append(_settle(contender, found, seconds / 3, samples, clock))
        if len(found) > 1:
            tell(f"{contender.name}: {sizes[-1][0]} positions per pass")

    def timed(place: int) -> float:
        best, instances = sizes[place]
        return _rate(contenders[place], instances, best, clock)

    names = [contender.name for contender in contenders]
    rivals = [names.index(c.against) if c.against in names else 0 for c in contenders]
    rates: list[list[float]] = [[] for _ in contenders]
    ratios: list[list[float]] = [[] for _ in contenders]
    for number in range(rounds):
        seen = []  # the rates of the first contender, which is compared with no other
        for rival in dict.fromkeys(rivals):
            before = timed(rival)
            seen += [before] if rival == 0 else []
            for place in (place for place, other in enumerate(rivals) if other == rival and place > 0):
                rates[place].append(timed(place))
                after = timed(rival)
                seen += [after] if rival == 0 else []
                ratios[place].append(rates[place][-1] * (1 / before + 1 / after) / 2)
                before = after
        rates[0].append(median(seen))
        ratios[0].append(1.0)
        tell(f"round {number + 1} of {rounds}")
    return [
        Speed(c.name, c.group_size, best, instances, its_rates, its_ratios, c.about)
        for c, (best, instances), its_rates, its_ratios in zip(contenders, sizes, rates, ratios, strict=True)
    ]


def _settle(
    contender: Contender, found: dict[int, float], seconds: float, samples: int | None, clock: Callable[[], float]
) -> tuple[int, int]:
    """The best batch size, chosen among those that looked best, and how many instances make a round.

    These sizes run in turn and are compared within each turn, and the median over the turns counts. So it does not
    matter if the machine is faster or slower for a second.
    """
    best = sorted(found, key=lambda size: -found[size])[:BEST]

    def instances(size: int, seconds: float) -> int:
        # Only whole passes: a contender must not pay for one that is mostly empty.
        a_pass = max(1, int(size // contender.tokens)) * contender.group_size
        return a_pass * max(1, round(found[size] * seconds / a_pass))

    shares: dict[int, list[float]] = {size: [] for size in best}  # each size's rate over the mean rate of its turn
    for _ in range(TURNS if len(best) > 1 else 0):
        turn = {size: _rate(contender, instances(size, seconds), size, clock) for size in best}
        for size, rate in turn.items():
            shares[size].append(rate / fmean(turn.values()))
    chosen = max(best, key=lambda size: median(shares[size] or [1.0]))
    return chosen, samples or instances(chosen, 3 * seconds)


def tune(
    contender: Contender, positions: Sequence[int], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> dict[int, float]:
    """The rate at each number of positions per pass. The first pass of each size warms up and is not counted.

    Larger sizes are skipped once two in a row were slower than the best. Those above USUAL are skipped once one was, or
    once a single pass would take longer than a round, which is three times `seconds`.
    """
    found: dict[int, float] = {}
    for size in positions:
        instances = max(1, int(size // contender.tokens)) * contender.group_size  # one pass
        if size > USUAL and found:
            last = list(found.values())[-1]
            if last < max(found.values()) or instances / last > 3 * seconds:
                break
        rate = _rate(contender, instances, size, clock)
        instances *= max(1, round(rate * seconds / instances))
        found[size] = max(_rate(contender, instances, size, clock) for _ in range(2))
        if len(found) > 2 and max(list(found.values())[-2:]) < max(found.values()):
            break
    return found


def _rate(contender: Contender, instances: int, positions: int, clock: Callable[[], float]) -> float:
    before = clock()
    contender.work(instances, positions)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return instances / (clock() - before)
