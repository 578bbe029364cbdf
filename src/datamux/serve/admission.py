"""Who may bring more texts. Counts what tenants have brought and is not answered. Knows no model and no event loop.

One tenant may have `max_tenant_queue` texts, and all together `max_queue`. When all together are at their limit, a
tenant that has less than its share of it still gets in, so that a few busy tenants cannot lock out the others. Even
then there is an end: `RESERVE` times the limit. Characters are limited in the same way, because texts can be long.
"""

from collections import Counter
from collections.abc import Callable

from datamux.serve.contract import Limits

RESERVE = 2


class Admission:
    """`queued` tells how many texts wait for a pass: of one tenant, or of all for None."""

    def __init__(self, limits: Limits, queued: Callable[[str | None], int]) -> None:
        self.limits = limits
        self._queued = queued
        self._requests: Counter[str] = Counter()  # that are not finished, by tenant
        self._letters: Counter[str] = Counter()  # of the requests that are not finished
        self._all_letters = 0
        self._arriving: Counter[str] = Counter()  # texts that are being tokenised
        self._all_arriving = 0

    def enter(self, tenant: str, letters: int) -> None:
        """A request was accepted."""
        self._requests[tenant] += 1
        self._letters[tenant] += letters
        self._all_letters += letters

    def leave(self, tenant: str, letters: int) -> None:
        """The request is finished, well or not."""
        self._letters[tenant] -= letters
        self._all_letters -= letters
        self._requests[tenant] -= 1
        if not self._requests[tenant]:
            del self._requests[tenant], self._letters[tenant]

    def arriving(self, tenant: str, texts: int) -> None:
        """So many more texts are being tokenised; with a negative number, so many fewer."""
        self._arriving[tenant] += texts
        self._all_arriving += texts
        if not self._arriving[tenant]:
            del self._arriving[tenant]

    def problem(self, tenant: str) -> str:
        """Why a new request is refused; empty if it is not. One rule for single texts and for batches."""
        limits = self.limits
        texts, mine = self._queued(None) + self._all_arriving, self._queued(tenant) + self._arriving[tenant]
        letters, my_letters = self._all_letters, self._letters[tenant]
        most_letters = limits.max_letters * min(1.0, limits.max_tenant_queue / limits.max_queue)
        if mine >= limits.max_tenant_queue:
            return f"{mine} texts of this tenant wait already"
        if my_letters >= most_letters:
            return f"texts with {my_letters} characters of this tenant wait already"
        if self._is_full(tenant, texts, mine, limits.max_queue):
            return f"{texts} texts wait already"
        if self._is_full(tenant, letters, my_letters, limits.max_letters):
            return f"texts with {letters} characters wait already"
        return ""

    def has_room(self, tenant: str) -> bool:
        """Whether more texts of a request that was accepted may be queued now."""
        mine = self._queued(tenant)
        if mine >= self.limits.max_tenant_queue:
            return False
        return not self._is_full(tenant, self._queued(None), mine, self.limits.max_queue)

    def _is_full(self, tenant: str, total: int, mine: int, most: int) -> bool:
        if total < most:
            return False
        tenants = len(self._requests) + (tenant not in self._requests)
        return mine * tenants >= most or total >= RESERVE * most
