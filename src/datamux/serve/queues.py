"""Who waits, and who may share a group: one queue per tenant. Knows no model, no clock and no event loop.

A group never holds texts of two tenants. Tenants take turns, one group each, so a tenant with many texts cannot push
another one back. The text that has waited longest of all always goes in the next pass, and with it the texts near the
front of each queue whose lengths are closest to its own, because a pass is as long as its longest text. If a pass may
only hold one tenant, tenants take turns pass by pass.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Any, Protocol

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

    def __init__(self) -> None:
        self._waiting: OrderedDict[Key, list[Item]] = OrderedDict()  # in the order of their turns
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

    def waiting_like(self, alone: bool) -> int:
        """How many texts wait that may share a group (or, with `alone`, that may not)."""
        return self._sizes[alone]

    def waiting_by_tenant(self) -> list[int]:
        """Of each tenant, how many texts wait that may share a group."""
        return [len(items) for (_, alone), items in self._waiting.items() if not alone]

    def take(
        self, group_size: int, *, alone: bool, max_groups: int, max_tokens: int, one_tenant: bool = False
    ) -> list[Group]:
        """Remove the groups of the next pass, one tenant after the other; with `one_tenant`, all are of one tenant.

        All groups of a pass are padded to its longest text; `max_tokens` bounds groups times longest. The first group
        is always taken, however long it is.
        """
        in_turn = [key for key in self._waiting if key[1] == alone]  # whose last pass is longest ago comes first
        if not in_turn:
            return []
        first = in_turn[0] if one_tenant else min(in_turn[:max_groups], key=lambda key: self._waiting[key][0].arrived)
        size = 1 if alone else group_size
        wanted = self._waiting[first][0].length
        ahead = LOOK_AHEAD * max_groups * size
        round_ = [first] if one_tenant else [first, *(key for key in in_turn if key != first)]
        near: dict[Key, list[Item]] = {}  # of each tenant, those near the front, in order of how well they fit
        used: Counter[Key] = Counter()
        turns: Counter[Key] = Counter()
        longest = 0
        while round_:
            more: set[Key] = set()
            for key in round_:
                if turns.total() == max_groups:
                    break
                if key not in near:
                    near[key] = sorted(self._waiting[key][:ahead], key=lambda item: abs(item.length - wanted))  # stable
                group = near[key][used[key] : used[key] + size]
                length = max(longest, *(item.length for item in group))
                if turns and length * (turns.total() + 1) > max_tokens:
                    continue
                longest = length
                turns[key] += 1
                used[key] += len(group)
                if used[key] < len(near[key]):
                    more.add(key)
            round_ = [key for key in in_turn if key in more] if turns.total() < max_groups else []
        taken: list[Group] = []
        for key in sorted((key for key in in_turn if key in used), key=turns.__getitem__):  # who had less is next
            chosen = near[key][: used[key]]
            self._remove(key, chosen, ahead)
            chosen.sort(key=lambda item: -item.length)
            taken += [chosen[start : start + size] for start in range(0, used[key], size)]
        return taken

    def _remove(self, key: Key, taken: list[Item], ahead: int) -> None:
        """Remove items that are among the first `ahead`; the tenant's next turn comes after everybody else's."""
        items = self._waiting[key]
        chosen = set(map(id, taken))
        self._sizes[key[1]] -= len(taken)
        items[:ahead] = [item for item in items[:ahead] if id(item) not in chosen]
        if items:
            self._waiting.move_to_end(key)
        else:
            del self._waiting[key]
