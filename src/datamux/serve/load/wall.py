"""Where the wall time of a single-text request goes: what it waits for, and which part of the server is always at work.

Shares of CPU time do not tell what limits a server: a request may wait for a part that needs little of it. So this
counts seconds by the clock, as an observer of the batcher.
"""

import time
from typing import Any

from datamux.serve.batcher import PassReport
from datamux.serve.metrics import REQUEST_SECONDS
from datamux.serve.service import Service

OUTSIDE = "before and after the server has it: sockets, and the load generator"
SERVER = "reading, checking and writing"
TOKENISING, QUEUE, PASS = "tokenising, and the wait for it", "waiting for a pass", "in the pass"


class WallClock:
    """Watches a service of which every request has one text, from now on, and tells its metrics all it hears."""

    def __init__(self, service: Service) -> None:
        self._metrics, self._next = service.metrics, service.batcher.observer
        service.batcher.observer = self
        self._tokeniser = service.batcher._tokeniser
        self.busy_for = self._tokeniser.busy_for
        service.batcher._tokeniser = self  # type: ignore[assignment]
        self.clear()

    def clear(self) -> None:
        self._began = self._ended = 0.0  # of the first pass, and of the last
        self._running = self._queued = self._passing = self._tokenising = 0.0  # seconds
        self._passes = self._texts = self._tokenised = 0
        self._before = self._requests()

    def passed(self, report: PassReport) -> None:
        now = time.perf_counter()
        self._began = self._began or now - report.seconds
        self._ended = now
        self._passes += 1
        self._texts += len(report.queued)
        self._running += report.seconds
        self._queued += sum(report.queued)
        self._passing += report.seconds * len(report.queued)
        self._next.passed(report)

    def dropped(self, tenant: str, texts: int, why: str) -> None:
        self._next.dropped(tenant, texts, why)

    def refused(self, tenant: str, why: str) -> None:
        self._next.refused(tenant, why)

    async def __call__(self, tenant: str, texts: Any) -> Any:
        """Tokenise in place of the batcher's tokeniser."""
        began = time.perf_counter()
        rows = await self._tokeniser(tenant, texts)
        self._tokenising += time.perf_counter() - began
        self._tokenised += len(texts)
        return rows

    def _requests(self) -> tuple[float, int]:
        """Seconds that all requests so far took inside the server, and how many there were."""
        found = [buckets for (table, _), buckets in list(self._metrics.histograms.items()) if table is REQUEST_SECONDS]
        return sum(one.total for one in found), sum(sum(one.counts) for one in found)

    def measured(self, users: int, requests_per_second: float) -> dict[str, Any]:
        """Milliseconds of one request by what it waits for, and the share of the time in which a pass ran.

        Each user sends one request after the other, so a request takes as long as all users need for one each.
        """
        seconds, requests = (after - before for after, before in zip(self._requests(), self._before, strict=True))
        inside = seconds / max(1, requests)
        parts = {
            TOKENISING: self._tokenising / max(1, self._tokenised),
            QUEUE: self._queued / max(1, self._texts),
            PASS: self._passing / max(1, self._texts),
        }
        parts[SERVER] = max(0.0, inside - sum(parts.values()))
        parts[OUTSIDE] = max(0.0, users / requests_per_second - inside) if requests_per_second else 0.0
        return {
            "milliseconds": {name: 1000 * spent for name, spent in parts.items()},
            "pass_share": self._running / max(self._running, self._ended - self._began, 1e-9),
            "texts_per_pass": self._texts / max(1, self._passes),
        }
