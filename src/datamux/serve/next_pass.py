"""What the next pass is: when it should start and why, whose turn it is, in which gear, and with which texts.

Knows no model and no event loop; the clock is given.
"""

from datamux.serve.contract import Limits
from datamux.serve.gears import Gear, Gearbox
from datamux.serve.given import GivenPasses
from datamux.serve.queues import Group, Item, TenantQueues
from datamux.serve.turns import ALONE, GIVEN, MIXED, OVERHEAD, Kind, Turns

DEBT = 2  # passes: more than these a tenant never owes
Reasons = dict[Kind, str]  # why a pass of each kind should start now; only of those that should


class NextPass:
    """The texts that wait, in `queues` and in `given`, and what is taken of them next."""

    def __init__(self, gearbox: Gearbox, limits: Limits) -> None:
        self.gearbox = gearbox
        self.limits = limits
        largest = limits.max_groups * max(1.0, *(gear.pace for gear in gearbox.gears))
        self.turns = Turns(DEBT * (largest + OVERHEAD))
        self.queues = TenantQueues(self.turns)
        self.given = GivenPasses(self.turns)

    def due(self, now: float, *, closing: bool) -> tuple[Reasons, float | None]:
        """Which kinds of passes should start now, and why; or how long to wait for more texts, None if none wait."""
        reasons: Reasons = {GIVEN: "given"} if self.given else {}
        waits = []
        for kind in (ALONE, MIXED):
            oldest = self.queues.oldest(kind == ALONE)
            if oldest is None:
                continue
            reason, remaining = self._reason(oldest, now, closing)
            if reason:
                reasons[kind] = reason
            waits.append(remaining)
        return reasons, min(waits, default=None)

    def _reason(self, oldest: Item, now: float, closing: bool) -> tuple[str, float]:
        """Why a pass should start now, or an empty reason and how long to wait for more texts."""
        if closing:
            return "closing", 0.0
        fastest = self.gearbox.fastest
        largest = 1.0 if oldest.alone else fastest.group_size * fastest.pace
        if self.queues.waiting_like(oldest.alone) >= largest * self._groups_of(oldest):
            return "full", 0.0
        remaining = oldest.arrived + self.limits.max_wait - now
        return ("waited", 0.0) if remaining <= 0 else ("", remaining)

    def _groups_of(self, item: Item) -> int:
        """About how many groups fit a pass with this text."""
        if item.alone and not self.gearbox.alone.independent:
            return 1
        return max(1, min(self.limits.max_groups, self.limits.max_tokens // max(1, item.length)))

    def take(self, reasons: Reasons) -> tuple[list[Group], Gear, str]:
        """The groups of the next pass, its gear and its reason: first whose turn it is, then what that tenant runs."""
        tenants: dict[Kind, list[str]] = {kind: self._tenants(kind) for kind in reasons}
        tenant = self.turns.next(dict.fromkeys(one for some in tenants.values() for one in some))
        kind = self.turns.kind(tenant, [kind for kind, some in tenants.items() if tenant in some])
        if kind == GIVEN:
            groups, gear = self.given.take(tenant)
        else:
            groups, gear = self._queued(tenant, kind == ALONE)
        return groups, gear, reasons[kind]

    def _tenants(self, kind: Kind) -> list[str]:
        return self.given.tenants() if kind == GIVEN else self.queues.tenants_like(kind == ALONE)

    def _queued(self, tenant: str, alone: bool) -> tuple[list[Group], Gear]:
        """The groups of a pass in which this tenant comes first, and their gear."""
        limits, gear = self.limits, self.gearbox.alone
        if not alone:
            first = self.queues.first(tenant, alone)  # which is in the pass for sure
            gear = self.gearbox.choose(self.queues.waiting_by_tenant(), self._groups_of(first))
        larger = max(1.0, gear.pace)  # a faster model runs more groups in the same time
        groups = self.queues.take(
            gear.group_size,
            alone=alone,
            max_groups=1 if alone and not gear.independent else int(limits.max_groups * larger),
            max_tokens=int(limits.max_tokens * larger),
            one_tenant=not gear.independent,
        )
        return groups, gear
