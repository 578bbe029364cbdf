"""Who waits, and who may share a group: one queue per tenant. Knows no model, no clock and no event loop.

A group never holds texts of two tenants. Tenants take turns, one group each, so a tenant with many texts cannot push
another one back. Of the tenant whose turn it is, the text that has waited longest goes in the pass, and with it the
texts near the front of each queue whose lengths are closest to its own, because a pass is as long as its longest text.
If a pass may only hold one tenant, it holds the one whose turn it is.
"""

from collections import Counter
from dataclasses import dataclass
from heapq import heappop, heapreplace
from typing import Any, Protocol

from datamux.serve.turns import ALONE, MIXED, Turns

LOOK_AHEAD = 2  # how many passes' worth of texts, from the front of a queue, may be chosen from by length


class Caller(Protocol):
    """Who waits for an item's answer."""

    @property
    def gone(self) -> bool:
        """Whether nobody waits any more."""
        ...


class NobodyLeaves:
    """A caller that always waits."""

    gone = False


@dataclass(eq=False, slots=True)
class Item:
    """One text that waits for its answer. `length` counts its tokens; `alone` forbids sharing a group."""

    tenant: str
    row: Any
    length: int
    arrived: float
    alone: bool = False
    caller: Any = NobodyLeaves
    place: int = 0  # among the texts of its caller


Group = list[Item]
Key = tuple[str, bool]


class TenantQueues:
    """The texts that wait: those that may share a group, and beside them those that may not (`alone`)."""

    def __init__(self, turns: Turns | None = None) -> None:
        self.turns = turns or Turns()
        self._waiting: dict[Key, list[Item]] = {}
        self._sizes = {False: 0, True: 0}  # by `alone`

    def __len__(self) -> int:
        return self._sizes[False] + self._sizes[True]

    def count(self, tenant: str) -> int:
        """How many texts of this tenant wait."""
        return sum(len(self._waiting.get((tenant, alone), ())) for alone in (False, True))

    def tenants(self) -> dict[str, int]:
        """How many texts of each tenant wait."""
        return {owner: self.count(owner) for owner, _ in self._waiting}

    def add(self, item: Item) -> None:
        self._waiting.setdefault((item.tenant, item.alone), []).append(item)
        self._sizes[item.alone] += 1

    def drop_gone(self) -> list[Item]:
        """Remove and return the items whose callers have gone."""
        dropped: list[Item] = []
        for key, items in list(self._waiting.items()):
            gone = [item for item in items if item.caller.gone]
            if gone:
                self._remove(key, gone, len(items))
                dropped += gone
        return dropped

    def clear(self) -> list[Item]:
        """Remove and return everything that waits."""
        every = [item for items in self._waiting.values() for item in items]
        self._waiting.clear()
        self._sizes = {False: 0, True: 0}
        return every

    def oldest(self, alone: bool) -> Item | None:
        """Of the texts that may share a group (or, with `alone`, may not), the one that has waited longest.

        Each queue is in order of arrival, so its first item is its oldest.
        """
        first = (items[0] for key, items in self._waiting.items() if key[1] == alone)
        return min(first, key=lambda item: item.arrived, default=None)

    def first(self, tenant: str, alone: bool) -> Item:
        """The text that is taken first when it is this tenant's turn."""
        return self._waiting[tenant, alone][0]

    def tenants_like(self, alone: bool) -> list[str]:
        """Who has texts that may share a group (or, with `alone`, that may not)."""
        return [tenant for tenant, of_kind in self._waiting if of_kind == alone]

    def waiting_like(self, alone: bool) -> int:
        """How many texts wait that may share a group (or, with `alone`, that may not)."""
        return self._sizes[alone]

    def waiting_by_tenant(self) -> list[int]:
        """Of each tenant, how many texts wait that may share a group."""
        return [len(items) for (_, alone), items in self._waiting.items() if not alone]

    def take(
        self, group_size: int, *, alone: bool, max_groups: int, max_tokens: int, one_tenant: bool = False
    ) -> list[Group]:
        """Remove the groups of the next pass: each is of the tenant that owes the fewest turns by then.

        With `one_tenant`, all are of one tenant. All groups of a pass are padded to its longest text; `max_tokens`
        bounds groups times longest. The first group is always taken, however long it is.
        """
        in_turn = self.turns.in_order(self.tenants_like(alone))[: 1 if one_tenant else None]
        if not in_turn:
            return []
        size = 1 if alone else group_size
        wanted = self.first(in_turn[0], alone).length
        ahead = LOOK_AHEAD * max_groups * size
        heap = [(self.turns.owes(tenant), place, tenant) for place, tenant in enumerate(in_turn)]  # sorted: a heap
        near: dict[str, list[Item]] = {}  # of each tenant, those near the front, in order of how well they fit
        used: Counter[str] = Counter()
        groups: Counter[str] = Counter()
        longest = 0
        while heap and groups.total() < max_groups:
            owes, place, tenant = heap[0]
            if tenant not in near:
                waiting = self._waiting[tenant, alone][:ahead]
                near[tenant] = sorted(waiting, key=lambda item: abs(item.length - wanted))  # stable
            group = near[tenant][used[tenant] : used[tenant] + size]
            length = max(longest, *(item.length for item in group))
            if groups and length * (groups.total() + 1) > max_tokens:
                heappop(heap)
                continue
            longest = length
            groups[tenant] += 1
            used[tenant] += len(group)
            if used[tenant] < len(near[tenant]):
                heapreplace(heap, (owes + 1, place, tenant))
            else:
                heappop(heap)
        taken: list[Group] = []
        for tenant in groups:
            chosen = near[tenant][: used[tenant]]
            self._remove((tenant, alone), chosen, ahead)
            chosen.sort(key=lambda item: -item.length)
            taken += [chosen[start : start + size] for start in range(0, used[tenant], size)]
        self.turns.ran(ALONE if alone else MIXED, groups)
        return taken

    def _remove(self, key: Key, taken: list[Item], ahead: int) -> None:
        """Remove items that are among the first `ahead`."""
        items = self._waiting[key]
        chosen = set(map(id, taken))
        self._sizes[key[1]] -= len(taken)
        items[:ahead] = [item for item in items[:ahead] if id(item) not in chosen]
        if not items:
            del self._waiting[key]
