"""The Prometheus pages of all replicas as one page, in which every value is labelled with its replica.

What fronts have refused reaches no replica, so it has a metric of its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families


def merge_metrics(pages: Mapping[str, str]) -> bytes:
    """One page out of the pages of the replicas, by their names."""
    families: dict[str, Metric] = {}
    for replica, page in pages.items():
        for family in text_string_to_metric_families(page):
            merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                merged.samples.append(sample._replace(labels={**sample.labels, "replica": replica}))
    return _page(families.values())


def refusals_page(fronts: Mapping[str, Mapping[int, int]]) -> bytes:
    """How many requests every front has answered itself, by status."""
    text = "Requests that a front has answered itself, because it refused them or no replica answered."
    family = CounterMetricFamily("datamux_front_refused_requests", text, labels=["front", "status"])
    for front, counts in fronts.items():
        for status, count in counts.items():
            family.add_metric([front, str(status)], count)
    return _page([family])


def _page(families: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Ready(families))
    return generate_latest(registry)


class _Ready:
    def __init__(self, families: Iterable[Metric]) -> None:
        self.families = families

    def collect(self) -> Iterator[Any]:
        yield from self.families
