"""How many unanswered requests a front holds, in all and of one tenant. What is more is refused with 429 at once.

Ray would let them wait without end. A tenant's share is smaller than the whole, so that others still get in.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from datamux.serve.refusals import Overloaded
from datamux.serve.settings import Settings


@dataclass(frozen=True)
class Limits:
    """Of all tenants together, and of one: requests, and bytes of their bodies."""

    requests: int
    tenant_requests: int
    size: int
    tenant_size: int

    @classmethod
    def of(cls, settings: Settings, capacity: int) -> "Limits":
        """`capacity` is how many requests all replicas may work on; the limits of waiting come on top of it."""
        size, share = settings.max_queue_characters, settings.max_tenant_queue / settings.max_queue
        return cls(
            settings.max_queue + capacity,
            settings.max_tenant_queue + capacity,
            size,
            max(settings.max_body_bytes, int(size * min(1.0, share))),
        )


class Admission:
    """Counts what is under way."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._requests: Counter[str] = Counter()
        self._sizes: Counter[str] = Counter()

    @contextmanager
    def request(self, tenant: str) -> Iterator["Seat"]:
        """A place for a request until it is answered, or `Overloaded`."""
        if self._requests[tenant] >= self.limits.tenant_requests:
            raise Overloaded("too many of your requests are unanswered; wait for answers, and try again")
        if self._requests.total() >= self.limits.requests:
            raise Overloaded("too many requests are unanswered; try again")
        seat = Seat(self, tenant)
        self._requests[tenant] += 1
        try:
            yield seat
        finally:
            _take(self._requests, tenant, 1)
            _take(self._sizes, tenant, seat.size)

    def hold(self, tenant: str, size: int) -> None:
        limits = self.limits
        if self._sizes[tenant] + size > limits.tenant_size or self._sizes.total() + size > limits.size:
            raise Overloaded("unanswered requests are too long together; wait for answers, and try again")
        self._sizes[tenant] += size


class Seat:
    """One request's place."""

    def __init__(self, admission: Admission, tenant: str) -> None:
        self._admission, self._tenant, self.size = admission, tenant, 0

    def hold(self, body: bytes) -> None:
        """Count the body, too, once it is read."""
        self._admission.hold(self._tenant, len(body))
        self.size = len(body)


def _take(counts: Counter[str], tenant: str, count: int) -> None:
    """Tenants with nothing under way are forgotten: there is no end of them."""
    counts[tenant] -= count
    if counts[tenant] <= 0:
        del counts[tenant]
