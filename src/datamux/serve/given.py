"""Passes whose groups their callers chose: one queue per tenant. Knows no model and no event loop."""

from collections import Counter, deque
from typing import NamedTuple

from datamux.serve.contract import Limits
from datamux.serve.gears import Gear
from datamux.serve.queues import Group, Item
from datamux.serve.turns import GIVEN, Turns


class GivenPass(NamedTuple):
    """Groups that run together as they are. All of them are of one tenant and of one caller."""

    groups: list[Group]
    gear: Gear

    @property
    def items(self) -> list[Item]:
        return [item for group in self.groups for item in group]


class GivenPasses:
    """The passes that wait."""

    def __init__(self, turns: Turns | None = None) -> None:
        self.turns = turns or Turns()
        self._waiting: dict[str, deque[GivenPass]] = {}  # by tenant
        self.texts: Counter[str] = Counter()  # of each tenant; how many texts wait
        self._total = 0

    def __len__(self) -> int:
        """How many texts wait."""
        return self._total

    def add(self, given: GivenPass) -> None:
        tenant = given.groups[0][0].tenant
        self._waiting.setdefault(tenant, deque()).append(given)
        self._count(tenant, len(given.items))

    def tenants(self) -> list[str]:
        """Who has passes that wait."""
        return list(self._waiting)

    def take(self, tenant: str) -> GivenPass:
        """Remove this tenant's pass that has waited longest."""
        passes = self._waiting[tenant]
        given = passes.popleft()
        self._count(tenant, -len(given.items))
        if not passes:
            del self._waiting[tenant]
        self.turns.ran(GIVEN, {tenant: len(given.groups)})
        return given

    def drop_gone(self) -> bool:
        """Remove the passes whose callers have gone; whether there were any."""
        before = self._total
        for tenant, passes in list(self._waiting.items()):
            kept = deque(given for given in passes if not given.groups[0][0].caller.gone)
            if len(kept) == len(passes):
                continue
            self._count(tenant, sum(len(given.items) for given in kept) - self.texts[tenant])
            if kept:
                self._waiting[tenant] = kept
            else:
                del self._waiting[tenant]
        return self._total < before

    def clear(self) -> None:
        self._waiting.clear()
        self.texts.clear()
        self._total = 0

    def _count(self, tenant: str, texts: int) -> None:
        self._total += texts
        self.texts[tenant] += texts
        if not self.texts[tenant]:
            del self.texts[tenant]


def passes_of(groups: list[Group], gear: Gear, limits: Limits) -> list[GivenPass]:
    """Given groups, divided into passes that keep the limits."""
    most = 1 if gear.group_size == 1 and not gear.independent else limits.max_groups
    passes: list[list[Group]] = []
    longest = 0
    for group in groups:
        length = max(item.length for item in group)
        longest = max(longest, length)
        full = not passes or len(passes[-1]) >= most
        if full or longest * (len(passes[-1]) + 1) > limits.max_tokens:
            passes.append([])
            longest = length
        passes[-1].append(group)
    return [GivenPass(some, gear) for some in passes]
