"""What share of the passes one tenant gets among several: the same, whatever kinds of passes it asks for."""

import asyncio
from collections import Counter
from itertools import pairwise

import pytest

from batching import GEARS, Fake, Seen, play
from datamux.serve.batcher import Batcher, Limits
from datamux.serve.gears import Gear, Gearbox
from datamux.serve.next_pass import NextPass
from datamux.serve.queues import Item
from datamux.serve.turns import OVERHEAD, Turns

OTHERS = [f"tenant {number}" for number in range(9)]
SECONDS = 4.0  # of virtual time: 200 passes
WIDE = Limits(max_wait=0.002, max_groups=8, max_tokens=100_000, max_queue=20_000, max_tenant_queue=500, timeout=1000.0)
KINDS = ("mixed", "alone", "given")


async def flood(batcher: Batcher, tenant: str, kind: str, groups: int = 40) -> None:
    """One request after the other, each with many texts."""
    while True:
        if kind == "given":
            await batcher.run_groups(tenant, [[f"{tenant}:given"] * 3] * groups, GEARS.gears[1])
        else:
            await batcher.submit(tenant, [f"{tenant}:{kind}"] * 100, alone=kind == "alone")


def shares(kinds: tuple[str, ...], gears: Gearbox = GEARS, groups: int = 40) -> tuple[Counter[str], Counter[str]]:
    """The share of the groups, and of the passes, that each tenant got. `a` floods; the others send ordinary texts."""

    async def scenario(batcher: Batcher, fake: Fake) -> None:
        floods = [flood(batcher, "a", kind, groups) for kind in kinds for _ in range(3)]
        floods += [flood(batcher, tenant, "mixed") for tenant in OTHERS for _ in range(3)]
        tasks = [asyncio.ensure_future(one) for one in floods]
        await asyncio.sleep(SECONDS)
        for task in tasks:
            task.cancel()

    _, seen = play(scenario, WIDE, gears)
    return shares_of(seen)


def shares_of(seen: Seen) -> tuple[Counter[str], Counter[str]]:
    groups: Counter[str] = Counter()
    passes: Counter[str] = Counter()
    for report in seen.reports[20:]:  # at first all are new
        for tenant, _ in report.groups:
            groups[tenant] += 1
            passes[tenant] += 1 / len(report.groups)
    return (
        Counter({tenant: count / groups.total() for tenant, count in groups.items()}),
        Counter({tenant: count / passes.total() for tenant, count in passes.items()}),
    )


@pytest.mark.parametrize("kinds", [("mixed",), ("alone",), ("given",), ("alone", "given"), KINDS], ids="+".join)
def test_a_tenant_gets_no_more_by_asking_for_other_kinds_of_passes(kinds: tuple[str, ...]) -> None:
    groups, passes = shares(kinds)
    assert 0.07 <= groups["a"] <= 0.13
    assert passes["a"] <= 0.15
    assert all(0.07 <= groups[tenant] <= 0.13 for tenant in OTHERS)


def test_many_small_passes_of_ones_own_cost_more_than_their_groups() -> None:
    """A pass with one group takes a whole pass's overhead, and nobody else may use the rest of it."""
    groups, passes = shares(("given",), groups=1)
    assert groups["a"] <= 0.05
    assert passes["a"] <= 0.25


def test_the_same_holds_if_a_pass_may_only_have_one_tenant() -> None:
    dependent = Gearbox([Gear(gear.name, gear.group_size, independent=False) for gear in GEARS.gears])
    groups, _ = shares(KINDS, dependent)
    assert groups["a"] <= 0.15


@pytest.mark.parametrize("kinds", [("mixed",), ("alone",), ("given",), KINDS], ids="+".join)
def test_a_tenant_that_is_by_itself_fills_every_pass_and_waits_for_nothing(kinds: tuple[str, ...]) -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        tasks = [asyncio.ensure_future(flood(batcher, "a", kind)) for kind in kinds for _ in range(4)]
        await asyncio.sleep(SECONDS)
        for task in tasks:
            task.cancel()

    fake, seen = play(scenario, WIDE)
    sizes = [len(report.groups) for report in seen.reports]
    assert sum(sizes) >= 0.95 * WIDE.max_groups * len(sizes)
    assert all(begins - ended < 0.003 for (_, ended), (begins, _) in pairwise(fake.busy))
    assert len(sizes) >= 0.9 * SECONDS / fake.seconds


def test_one_tenants_kinds_take_turns() -> None:
    """With --single-tenant, everybody is one tenant."""

    async def scenario(batcher: Batcher, fake: Fake) -> None:
        tasks = [asyncio.ensure_future(flood(batcher, "a", kind)) for kind in KINDS for _ in range(2)]
        await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        await asyncio.gather(
            batcher.run_groups("a", [["a:x"]], GEARS.gears[1]),
            batcher.submit("a", ["a:x"], alone=True),
            batcher.submit("a", ["a:x"]),
        )
        # The texts of its own kind before it, and two passes of other kinds for each pass of these.
        assert asyncio.get_running_loop().time() - began < 3 * (200 / 8 + 2) * fake.seconds
        for task in tasks:
            task.cancel()

    _, seen = play(scenario, WIDE)
    ran = Counter(report.reason if report.reason == "given" else report.gear.name for report in seen.reports)
    assert min(ran.values()) > 0.2 * ran.total()


def test_newcomers_keep_nobody_waiting_for_ever() -> None:
    """Every connection may be a tenant of its own, so there can be always new ones that owe nothing."""
    turns = Turns()
    turns.ran("alone", {"a": 8})
    waited = 0
    while (tenant := turns.next(["a", *(f"new {waited + number}" for number in range(3))])) != "a":
        turns.ran("mixed", {tenant: 1})
        waited += 1
    assert waited < 60


def test_who_filled_passes_that_nobody_else_wanted_does_not_pay_for_all_of_them() -> None:
    """One text of `b` always waits, so it is always the turn of `b`, and `a` gets the rest of each pass."""
    following = NextPass(GEARS, WIDE)
    for number in range(500):
        following.queues.add(Item("b", number, 5, 0.0))
        for _ in range(8):
            following.queues.add(Item("a", number, 5, 0.0))
        reasons, _ = following.due(1.0, closing=False)
        groups, _, _ = following.take(reasons)
        assert {group[0].tenant for group in groups} == {"a", "b"}
    assert following.turns.owes("a") <= 2 * (WIDE.max_groups + OVERHEAD)


def test_who_is_not_waiting_leaves_the_ring() -> None:
    turns = Turns()
    for number in range(1000):
        assert turns.next([f"connection {number}"]) == f"connection {number}"
        turns.ran("mixed", {f"connection {number}": 1})
    assert len(turns._ring) < 10
