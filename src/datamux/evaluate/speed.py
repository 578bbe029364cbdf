"""How many instances a second: contenders side by side, each at its best batch size, in interleaved rounds.

Timings on a shared machine wander. So every round times every contender, ratios are taken within a round, and the
median is reported with the lowest and the highest.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Protocol

import torch

POSITIONS = (256, 512, 1024, 2048, 4096, 8192)  # of one pass: the batch sizes that are tried


class Work(Protocol):
    """Answer so many instances, with about `positions` positions a pass."""

    def __call__(self, instances: int, positions: int) -> None: ...


@dataclass
class Contender:
    """Something that answers instances of about `tokens` tokens each, `group_size` of them a pass.

    `against`: the name of the contender that it is compared with; the first, if none is named.
    """

    name: str
    work: Work
    group_size: int = 1
    tokens: float = 32.0
    about: dict[str, Any] = field(default_factory=dict)
    against: str | None = None


@dataclass(frozen=True)
class Speed:
    """What was measured of one contender. Ratios are to the one it is compared with, round by round."""

    name: str
    group_size: int
    positions: int  # a pass, the best of those tried
    instances: int  # a round
    rates: list[float]  # instances a second, one a round
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

    A round of one contender takes about `seconds`, or exactly `samples` instances.
    """
    tuned: list[
        list[tuple[int, int]]
    ] = []  # of each contender, the sizes that go into the rounds, and how many instances
    for contender in contenders:
        found = tune(contender, positions, seconds / 3, clock)
        best = sorted(found, key=lambda size: -found[size])[:2]  # which of the two is better, the rounds decide
        a_pass = [max(1, int(size // contender.tokens)) * contender.group_size for size in best]
        # Whole passes: a contender must not pay for a pass that is mostly empty.
        tuned.append(
            [(b, samples or p * max(1, round(found[b] * seconds / p))) for b, p in zip(best, a_pass, strict=True)]
        )
        tell(f"{contender.name}: {found[best[0]]:,.0f} a second at {best[0]} positions a pass")
    places = {contender.name: place for place, contender in enumerate(contenders)}
    timed: list[dict[int, list[float]]] = [{size: [] for size, _ in sizes} for sizes in tuned]
    for number in range(rounds):
        for seen, contender, sizes in zip(timed, contenders, tuned, strict=True):
            for size, instances in sizes:
                seen[size].append(_rate(contender, instances, size, clock))
        tell(f"round {number + 1} of {rounds}")
    chosen = [max(sizes, key=lambda pair: median(seen[pair[0]])) for seen, sizes in zip(timed, tuned, strict=True)]
    rates = [seen[size] for seen, (size, _) in zip(timed, chosen, strict=True)]
    return [
        Speed(
            name=contender.name,
            group_size=contender.group_size,
            positions=best,
            instances=instances,
            rates=seen,
            ratios=[
                mine / other for mine, other in zip(seen, rates[places.get(contender.against or "", 0)], strict=True)
            ],
            about=contender.about,
        )
        for contender, (best, instances), seen in zip(contenders, chosen, rates, strict=True)
    ]


def tune(
    contender: Contender, positions: Sequence[int], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> dict[int, float]:
    """The rate at each number of positions a pass. The first pass of each size warms up and is not counted.

    Larger sizes are left out once two in a row were slower than the best.
    """
    found: dict[int, float] = {}
    for size in positions:
        instances = max(1, int(size // contender.tokens)) * contender.group_size  # one pass
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


@torch.inference_mode()
def take_turns(
    models: Sequence[torch.nn.Module], rows: torch.Tensor, *, count: int = 20_000, rounds: int = 7
) -> list[list[float]]:
    """Rows a second of each model in each round, `count` rows at once: for networks whose inputs are plain vectors."""
    batch = rows[torch.arange(count) % len(rows)]
    for model in models:
        model(batch)
    rates: list[list[float]] = [[] for _ in models]
    for _ in range(rounds):
        for model, seen in zip(models, rates, strict=True):
            before = time.perf_counter()
            model(batch)
            seen.append(count / (time.perf_counter() - before))
    return rates
