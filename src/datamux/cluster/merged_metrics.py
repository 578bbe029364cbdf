"""The Prometheus pages of all replicas as one page, in which every value is labelled with its replica."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families


def merge_metrics(pages: Mapping[str, str]) -> bytes:
    """One page out of the pages of the replicas, by their names."""
    families: dict[str, Metric] = {}
    for replica, page in pages.items():
        for family in text_string_to_metric_families(page):
            merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                merged.samples.append(sample._replace(labels={**sample.labels, "replica": replica}))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Ready(families))
    return generate_latest(registry)


class _Ready:
    def __init__(self, families: Mapping[str, Metric]) -> None:
        self.families = families

    def collect(self) -> Iterator[Any]:
        yield from self.families.values()
