"""What the next pass is: when it should start and why, in which gear, and with which texts.

Knows no model and no event loop; the clock is given.
"""

from datamux.serve.contract import Limits
from datamux.serve.gears import Gear, Gearbox
from datamux.serve.queues import Group, Item, TenantQueues


class NextPass:
    """Chooses from the queues."""

    def __init__(self, queues: TenantQueues, gearbox: Gearbox, limits: Limits) -> None:
        self.queues = queues
        self.gearbox = gearbox
        self.limits = limits
        self._ran_alone = False  # whether the last pass was of texts that may not share a group

    def due(self, now: float, *, closing: bool) -> tuple[Item | None, str, float | None]:
        """The text whose pass should start now, and why; or how long to wait for more texts, None if none wait.

        Texts that may share a group and texts that may not take turns, so that many of one kind cannot push a text of
        the other kind back.
        """
        waits = []
        for alone in (not self._ran_alone, self._ran_alone):
            oldest = self.queues.oldest(alone)
            if oldest is None:
                continue
            reason, remaining = self._reason(oldest, now, closing)
            if reason:
                return oldest, reason, 0.0
            waits.append(remaining)
        return None, "", min(waits, default=None)

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

    def _groups_of(self, oldest: Item) -> int:
        """About how many groups fit a pass."""
        if oldest.alone and not self.gearbox.alone.independent:
            return 1
        return max(1, min(self.limits.max_groups, self.limits.max_tokens // max(1, oldest.length)))

    def take(self, oldest: Item) -> tuple[Gear, list[Group]]:
        """The gear for what waits, and the groups of the next pass."""
        limits, alone = self.limits, oldest.alone
        self._ran_alone = alone
        gear = self.gearbox.alone
        if not alone:
            gear = self.gearbox.choose(self.queues.waiting_by_tenant(), self._groups_of(oldest))
        larger = max(1.0, gear.pace)  # a faster model runs more groups in the same time
        groups = self.queues.take(
            gear.group_size,
            alone=alone,
            max_groups=1 if alone and not gear.independent else int(limits.max_groups * larger),
            max_tokens=int(limits.max_tokens * larger),
            one_tenant=not gear.independent,
        )
        return gear, groups
