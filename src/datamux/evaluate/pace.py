"""How much to measure in a given time: on a slow or busy machine fewer rounds and smaller passes, not minutes.

What a pass costs grows with the texts in it, so a large group size gets fewer positions. The contender that the
others are compared with keeps enough of them to be near its best, whatever the machine.
"""

import time
from collections.abc import Callable, Sequence

from datamux.evaluate.speed import Contender

POSITIONS = (2048, 1024, 512, 256, 128)  # a pass, the best first
FIRST = 1024  # of these at least for the first contender: it would lose much with fewer
TRIAL = 256
UNITS = 3  # before the rounds `compare_speed` runs each contender so often, with one size to choose from


def choose_pace(
    contenders: Sequence[Contender],
    *,
    rounds: int,
    seconds: float,
    limit: float,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[int], int]:
    """(positions a pass of each contender, rounds), so that `compare_speed` takes about `limit` seconds."""
    passes = [_one_pass(contender, clock) / TRIAL for contender in contenders]  # seconds a position
    many = len(contenders)
    for number in range(rounds, 0, -1):
        # The first runs before and after every other.
        unit = limit / (UNITS * many + number * (2 * many - 1))
        if max(seconds / 3, passes[0] * FIRST) <= unit:
            break
    fitting = [[p for p in POSITIONS if spent * p <= unit] or [POSITIONS[-1]] for spent in passes]
    first, *others = [sizes[0] for sizes in fitting]
    return [max(first, FIRST), *others], number


def _one_pass(contender: Contender, clock: Callable[[], float]) -> float:
    instances = max(1, int(TRIAL // contender.tokens)) * contender.group_size
    contender.work(instances, TRIAL)  # the first is slower
    before = clock()
    contender.work(instances, TRIAL)
    return clock() - before
