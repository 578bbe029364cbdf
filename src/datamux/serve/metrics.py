"""What Prometheus reads at /metrics. Observes the batcher and the HTTP side; knows no texts.

Passes report many values at once, so the histograms here count in bulk and become Prometheus text only when asked.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from datamux.serve.batcher import PassReport

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
SIZES = (1, 2, 3, 5, 8, 10, 15, 20, 30, 40)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Buckets:
    """A histogram."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, values: Iterable[float]) -> None:
        for value, times in Counter(values).items():
            self.counts[bisect_left(self.bounds, value)] += times
            self.total += value * times

    def cumulative(self) -> list[tuple[str, float]]:
        found, count = [], 0
        for bound, here in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            count += here
            found.append((str(bound), float(count)))
        return found


class Table:
    """Values of one metric, one for each combination of labels."""

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.name, self.text, self.labels = name, text, labels


class Metrics:
    """The batcher's observer, and what counts requests."""

    def __init__(self, waiting: Callable[[], dict[str, int]], tenant_label: Callable[[str], str] = str) -> None:
        self._waiting = waiting
        self._label = tenant_label
        self.counters: Counter[tuple[Table, tuple[str, ...]]] = Counter()
        self.histograms: dict[tuple[Table, tuple[str, ...]], Buckets] = {}
        self.healthy: Callable[[], bool] = lambda: True
        self.repeats: Callable[[], int] = lambda: 0
        self.registry = CollectorRegistry()
        self.registry.register(self)

    # The batcher's observer

    def passed(self, report: PassReport) -> None:
        gear, sizes = report.gear, [size for _, size in report.groups]
        result = "hung" if report.hung else "failed" if report.failed else "ok"
        self.counters[PASSES, (gear.name, report.reason, result)] += 1
        for tenant, texts in report.answered.items():
            self.counters[TEXTS, (self._label(tenant), gear.name)] += texts
        self.counters[TOKENS, ()] += report.tokens
        self.counters[POSITIONS, ()] += report.padded
        self._add(GROUP_SIZE, (gear.name,), sizes, SIZES)
        self._add(FILL, (gear.name,), [sum(sizes) / (len(sizes) * gear.group_size)], SHARES)
        self._add(WAIT, (), report.queued, SECONDS)
        self._add(PASS_SECONDS, (gear.name,), [report.seconds], SECONDS)

    def dropped(self, tenant: str, texts: int, why: str) -> None:
        self.counters[DROPS, (self._label(tenant), why)] += texts

    def refused(self, tenant: str, why: str) -> None:
        self.counters[REFUSALS, (self._label(tenant), why)] += 1

    # The HTTP side

    def requested(self, route: str, status: int, seconds: float) -> None:
        self.counters[REQUESTS, (route, str(status))] += 1
        self._add(REQUEST_SECONDS, (route,), [seconds], SECONDS)

    def text(self) -> bytes:
        """Everything in Prometheus' format."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Any]:
        """Called by Prometheus' registry."""
        for table in COUNTERS:
            family = CounterMetricFamily(table.name, table.text, labels=table.labels)
            for (which, labels), value in list(self.counters.items()):
                if which is table:
                    family.add_metric(labels, value)
            yield family
        for table in HISTOGRAMS:
            histogram = HistogramMetricFamily(table.name, table.text, labels=table.labels)
            for (which, labels), buckets in list(self.histograms.items()):
                if which is table:
                    histogram.add_metric(labels, buckets.cumulative(), buckets.total)
            yield histogram
        queue = GaugeMetricFamily("datamux_queue_texts", "Texts that wait.", labels=["tenant"])
        waiting: Counter[str] = Counter()
        for tenant, count in self._waiting().items():
            waiting[self._label(tenant)] += count
        for tenant, count in waiting.items():
            queue.add_metric([tenant], count)
        yield queue
        text = "Slots that held a text once more, with --fill repeat."
        yield CounterMetricFamily("datamux_repeated_slots", text, value=self.repeats())
        yield GaugeMetricFamily("datamux_healthy", "1 if the model answers.", value=float(self.healthy()))

    def _add(self, table: Table, labels: tuple[str, ...], values: Iterable[float], bounds: tuple[float, ...]) -> None:
        buckets = self.histograms.get((table, labels))
        if buckets is None:
            buckets = self.histograms[table, labels] = Buckets(bounds)
        buckets.add(values)


PASSES = Table("datamux_passes", "Passes, by gear and by why they started.", "gear", "reason", "result")
TEXTS = Table("datamux_texts", "Texts that were answered while their callers still waited.", "tenant", "gear")
TOKENS = Table("datamux_tokens", "Tokens that were run.")
POSITIONS = Table("datamux_positions", "Positions that passes ran, padding included: groups times the longest text.")
DROPS = Table(
    "datamux_dropped_texts",
    "Texts without an answer because their request had ended: its client left, it timed out, or another of its texts "
    "failed.",
    "tenant",
    "reason",
)
REFUSALS = Table("datamux_refused_requests", "Requests that were not accepted.", "tenant", "reason")
REQUESTS = Table("datamux_requests", "HTTP requests.", "route", "status")
COUNTERS = (PASSES, TEXTS, TOKENS, POSITIONS, DROPS, REFUSALS, REQUESTS)
GROUP_SIZE = Table("datamux_group_size", "Texts that really shared a group.", "gear")
FILL = Table("datamux_fill_ratio", "Share of a pass's slots that held a text.", "gear")
WAIT = Table("datamux_queue_seconds", "How long texts waited for their pass.")
PASS_SECONDS = Table("datamux_pass_seconds", "How long passes took.", "gear")
REQUEST_SECONDS = Table("datamux_request_seconds", "How long requests took.", "route")
HISTOGRAMS = (GROUP_SIZE, FILL, WAIT, PASS_SECONDS, REQUEST_SECONDS)
