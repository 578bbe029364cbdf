"""What the batcher needs (an engine, limits) and whom it tells what happens (an observer)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from datamux.serve.gears import Gear


class Engine(Protocol):
    """What turns texts into rows, and groups of rows into answers. Each of the two has a thread of its own."""

    def tokenise(self, texts: Sequence[Any]) -> list[tuple[Any, int]]:
        """For each text its row and how many tokens it has; `BadInput` says what is wrong with a text."""
        ...

    def answer(self, groups: list[list[Any]], gear: Gear) -> list[list[Any]]:
        """One pass: for each group of rows its answers, in the same order."""
        ...


@dataclass(frozen=True)
class Limits:
    """What the batcher may hold and how long anything may take. Times are in seconds."""

    max_wait: float = 0.002  # that a text waits for company, counted from its own arrival
    max_groups: int = 8  # in one pass
    max_tokens: int = 4096  # in one pass: groups times the longest text
    max_queue: int = 8192  # texts that wait, of all tenants
    max_tenant_queue: int = 4096  # texts that wait, of one tenant
    max_letters: int = 64_000_000  # characters of all requests that are not finished
    timeout: float = 60.0  # of one request, for every 256 of its texts
    pass_timeout: float = 30.0  # of one pass


@dataclass(frozen=True)
class PassReport:
    """What one pass was, for metrics."""

    gear: Gear
    reason: str  # "full", "waited", "closing"; "given": the caller chose the groups; "again": a text of a failed pass
    groups: list[tuple[str, int]]  # of each group its tenant and its number of texts
    tokens: int
    padded: int  # positions that the pass ran: groups times the longest text
    queued: list[float]
    seconds: float
    failed: bool
    hung: bool = False  # it took longer than `pass_timeout`
    answered: Counter[str] = field(default_factory=Counter)  # of each tenant, texts whose callers still waited


class Observer(Protocol):
    """Is told what happens. Must be quick and must not raise."""

    def passed(self, report: PassReport) -> None: ...
    def dropped(self, tenant: str, texts: int, why: str) -> None: ...
    def refused(self, tenant: str, why: str) -> None: ...


class Silence:
    """An observer that ignores everything."""

    def passed(self, report: PassReport) -> None: ...
    def dropped(self, tenant: str, texts: int, why: str) -> None: ...
    def refused(self, tenant: str, why: str) -> None: ...
