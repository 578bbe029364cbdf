"""What the last minute was like, second by second, for the live chart. Holds numbers only, never a text or a tenant."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from datamux.serve.batcher import Observer, PassReport

SECONDS = 60  # that are remembered
SAMPLES = 512  # waiting times that are kept per second: enough for a median, bounded under any load


@dataclass
class Second:
    """What happened within one second."""

    number: int
    passes: int = 0
    texts: int = 0
    slots: int = 0
    ran: float = 0.0
    group_size: int = 0
    gear: str = ""
    queue: int = 0
    waits: list[float] = field(default_factory=list)


class RecentPasses:
    """An observer that remembers the last minute and tells `next` everything that it hears.

    `waiting` says how many texts wait right now.
    """

    def __init__(self, next: Observer, waiting: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self.next = next
        self.waiting = waiting
        self.clock = clock
        self._seconds: deque[Second] = deque(maxlen=SECONDS)

    def passed(self, report: PassReport) -> None:
        if not report.failed:
            self._remember(report)
        self.next.passed(report)

    def _remember(self, report: PassReport) -> None:
        texts = sum(count for _, count in report.groups)
        now = self._now()
        now.passes += 1
        now.texts += texts
        now.slots += len(report.groups) * report.gear.group_size
        now.ran += report.seconds
        if report.gear.group_size >= now.group_size:
            now.group_size, now.gear = report.gear.group_size, report.gear.name
        now.queue = max(now.queue, self.waiting())
        now.waits += [wait + report.seconds for wait in report.queued[: SAMPLES - len(now.waits)]]

    def dropped(self, tenant: str, texts: int, why: str) -> None:
        self.next.dropped(tenant, texts, why)

    def refused(self, tenant: str, why: str) -> None:
        self.next.refused(tenant, why)

    def summary(self) -> dict[str, Any]:
        """The last minute as plain numbers. `history` has one entry per second in which a pass ended, oldest first."""
        now = self.clock()
        recent = [second for second in self._seconds if now - second.number < SECONDS]
        waits = sorted(wait for second in recent for wait in second.waits)
        return {
            "time": time.time(),
            "queue": self.waiting(),
            "texts_per_second": _rate(recent, now),
            "p50": _quantile(waits, 0.5),
            "p95": _quantile(waits, 0.95),
            "history": [_told(second, now) for second in recent],
        }

    def _now(self) -> Second:
        number = int(self.clock())
        if not self._seconds or self._seconds[-1].number != number:
            self._seconds.append(Second(number))
        return self._seconds[-1]


def _rate(seconds: list[Second], now: float) -> float:
    """Texts per second over the last full second and the running one."""
    since = int(now) - 1
    return sum(second.texts for second in seconds if second.number >= since) / (now - since)


def _told(second: Second, now: float) -> dict[str, Any]:
    waits = sorted(second.waits)
    return {
        "age": int(now) - second.number,
        "passes": second.passes,
        "texts": second.texts,
        "group_size": second.group_size,
        "gear": second.gear,
        "fill": second.texts / second.slots,
        "seconds": second.ran / second.passes,
        "queue": second.queue,
        "p50": _quantile(waits, 0.5),
        "p95": _quantile(waits, 0.95),
    }


def _quantile(values: list[float], share: float) -> float | None:
    return values[min(len(values) - 1, int(share * len(values)))] if values else None
