"""Whose turn it is. All tenants stand in one ring, whatever they want to run. Knows no texts, clock or event loop.

A group costs a turn. A tenant that ran more groups in one pass than it had turns owes them, and is passed over until
the ring has come round as often. So it gets no more of the model by asking for other kinds of passes. A pass costs as
much as its groups and `OVERHEAD` more, which those who shared it share: a small pass of one's own is not cheap.
"""

import math
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["given", "alone", "mixed"]  # the caller chose the groups; each text by itself; we choose the groups
GIVEN: Kind = "given"
ALONE: Kind = "alone"
MIXED: Kind = "mixed"
OVERHEAD = 4.0  # groups: about what a pass costs by itself, measured on a CPU


@dataclass(slots=True)
class Place:
    """A tenant's place in the ring: the turns that it owes, and the kinds that it ran, the latest one last."""

    owes: float = 0.0
    ran: list[Kind] = field(default_factory=list)


class Turns:
    """The ring. Nobody owes more than `most` turns, so what a tenant ran while nobody else wanted to is forgotten."""

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self._ring: OrderedDict[str, Place] = OrderedDict()

    def next(self, wanting: Collection[str]) -> str:
        """Of the tenants that want to run something now, of whom there must be one, the one whose turn it is.

        Others leave the ring once they owe nothing.
        """
        for tenant in wanting:
            self._ring.setdefault(tenant, Place())
        while True:
            for tenant, place in list(self._ring.items()):
                if place.owes > 0:
                    place.owes -= 1
                    self._ring.move_to_end(tenant)
                elif tenant in wanting:
                    return tenant
                else:
                    del self._ring[tenant]

    def kind(self, tenant: str, kinds: Sequence[Kind]) -> Kind:
        """Of the kinds that a tenant wants to run, the one that it ran longest ago."""
        ran = self._ring[tenant].ran if tenant in self._ring else []
        return min(kinds, key=lambda kind: ran.index(kind) if kind in ran else -1)

    def in_order(self, tenants: Iterable[str]) -> list[str]:
        """These tenants, with those first who owe least, and of those the ones whose turn comes first."""
        places = {tenant: number for number, tenant in enumerate(self._ring)}
        return sorted(tenants, key=lambda tenant: (self.owes(tenant), places.get(tenant, len(places))))

    def owes(self, tenant: str) -> float:
        """How many turns this tenant owes."""
        return self._ring[tenant].owes if tenant in self._ring else 0.0

    def ran(self, kind: Kind, groups: Mapping[str, int]) -> None:
        """A pass was taken, with so many groups of each tenant. Who had fewer comes first next time."""
        total = sum(groups.values())
        for tenant in sorted(groups, key=groups.__getitem__):
            place = self._ring.setdefault(tenant, Place())
            place.owes = min(self.most, place.owes + groups[tenant] * (total + OVERHEAD) / total)
            place.ran = [one for one in place.ran if one != kind] + [kind]
            self._ring.move_to_end(tenant)
