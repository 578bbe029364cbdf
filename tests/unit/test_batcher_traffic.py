"""The batcher under random arrivals, cancellations, failures, hangs and shutdowns, in a time that the test controls.

The machine itself is tested, too: with a batcher that errs, it must fail.
"""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from batching import GEARS, HANG, LIMITS, Fake, Seen, VirtualLoop
from datamux.serve.batcher import Batcher, Overloaded, PassFailed, PassReport, TimedOut, Unavailable
from datamux.serve.gears import Gear, Gearbox
from datamux.serve.next_pass import NextPass
from datamux.serve.queues import Group, Item, TenantQueues
from datamux.serve.tickets import Ticket

BEFORE_THE_END = 8  # requests; afterwards the server may be shut down, and then there is little left to see
DEPENDENT = Gearbox([Gear(gear.name, gear.group_size, independent=False) for gear in GEARS.gears])


class Request:
    """One request that was sent, and what is known about it."""

    def __init__(self, work: Any, texts: list[str], loop: VirtualLoop, others: int) -> None:
        self.texts = texts
        self.others = others  # how many texts were unanswered when it was sent
        self.began, self.finished = loop.time(), float("inf")
        self.task: asyncio.Task[Any] = loop.create_task(work)
        self.task.add_done_callback(self._end)
        self.loop = loop
        self.cancelled = False

    def _end(self, task: asyncio.Task[Any]) -> None:
        self.finished = self.loop.time()
        if not task.cancelled():
            task.exception()  # asyncio complains about errors that nobody has looked at


class Timed(Seen):
    """Also keeps when each pass began."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.loop = loop
        self.begun: list[float] = []

    def passed(self, report: PassReport) -> None:
        super().passed(report)
        self.begun.append(self.loop.time() - report.seconds)


class Traffic(RuleBasedStateMachine):
    """Every accepted text is answered once with its own answer, or its caller is told; no group has two tenants."""

    gears = GEARS

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.fake, self.seen = Fake(), Timed(self.loop)
        self.batcher = Batcher(self.fake, self.gears, LIMITS, observer=self.seen, run=self.fake.run)
        self.requests: list[Request] = []
        self.closed_at = float("inf")
        self.number = 0
        self.gone: list[str] = []  # texts that ran though their callers had gone before
        self._watch_who_runs()
        self.do(self._start())

    def _watch_who_runs(self) -> None:
        passes = self.batcher._passes
        attempt = passes._attempt

        async def watched(groups: list[Group], gear: Gear) -> Any:
            self.gone += [item.row for group in groups for item in group if item.caller.gone]
            return await attempt(groups, gear)

        passes._attempt = watched  # type: ignore[method-assign]

    async def _start(self) -> None:
        self.batcher.start()

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @rule(
        tenant=st.sampled_from("abc"),
        lengths=st.lists(st.integers(1, 60), min_size=1, max_size=30),
        alone=st.booleans(),
        poison=st.booleans(),
    )
    def request(self, tenant: str, lengths: list[int], alone: bool, poison: bool) -> None:
        texts = []
        for place, length in enumerate(lengths):
            self.number += 1
            bad = "poison" if poison and place == 0 and len(lengths) < 3 else "x"
            texts.append(f"{tenant}:{'alone' if alone else 'mixed'}:{self.number}:{bad}" + "y" * length)
        self._send(self.batcher.submit(tenant, texts, alone=alone), texts)

    def _send(self, work: Any, texts: list[str]) -> None:
        others = sum(len(one.texts) for one in self.requests if not one.task.done())
        self.requests.append(Request(work, texts, self.loop, others))

    @rule(counts=st.lists(st.integers(1, 9), min_size=2, max_size=6))
    def several_tenants_at_once(self, counts: list[int]) -> None:
        for place, count in enumerate(counts):
            self.request("abc"[place % 3], [5 + place] * count, False, False)

    @rule(tenant=st.sampled_from("abc"), sizes=st.lists(st.integers(1, 3), min_size=1, max_size=9))
    def request_with_groups(self, tenant: str, sizes: list[int]) -> None:
        """The caller chooses the groups."""
        texts = []
        for size in sizes:
            self.number += 1
            texts.append([f"{tenant}:given{self.number}:{place}:x" for place in range(size)])

        async def ask() -> list[Any]:
            return [one for group in await self.batcher.run_groups(tenant, texts, self.gears.gears[1]) for one in group]

        self._send(ask(), [text for group in texts for text in group])

    @rule(seconds=st.sampled_from([0.001, 0.011, 0.05, 0.3]))
    def wait(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))

    @precondition(lambda self: self.requests)
    @rule(chance=st.randoms(use_true_random=False))
    def client_leaves(self, chance: Any) -> None:
        one = chance.choice(self.requests)
        one.task.cancel()
        one.cancelled = True

    @rule(times=st.integers(1, 3))
    def passes_fail(self, times: int) -> None:
        self.fake.fail_next = times

    @rule()
    def a_pass_hangs(self) -> None:
        self.fake.hang_next = True

    @rule(seconds=st.sampled_from([0.0, 0.001, 0.2]))
    def tokenising_takes(self, seconds: float) -> None:
        self.fake.tokenising = seconds

    @precondition(lambda self: self.closed_at == float("inf") and len(self.requests) > BEFORE_THE_END)
    @rule(grace=st.sampled_from([0.0, 0.05, 20.0]))
    def shut_down(self, grace: float) -> None:
        self.do(asyncio.sleep(0))  # so that the requests that were sent have arrived
        self.closed_at = self.loop.time()
        self.do(self.batcher.close(grace))
        self.do(asyncio.sleep(0.001))
        assert all(one.task.done() for one in self.requests)

    @invariant()
    def groups_are_of_one_tenant(self) -> None:
        for groups, gear in self.fake.passes:
            assert len(groups) <= LIMITS.max_groups
            for group in groups:
                assert len({tenant_of(row) for row in group}) == 1
                assert len(group) <= gear.group_size
                assert len(group) == 1 or not any(":alone:" in row for row in group)
                given = {row.split(":")[1] for row in group if ":given" in row}
                assert not given or (len(given) == 1 and all(":given" in row for row in group))

    @invariant()
    def a_pass_that_its_groups_share_has_one_tenant(self) -> None:
        for groups, gear in self.fake.passes:
            if not gear.independent:
                assert len({tenant_of(row) for group in groups for row in group}) == 1
                assert len(groups) == 1 or not any(":alone:" in row for group in groups for row in group)

    @invariant()
    def nobody_runs_who_had_gone(self) -> None:
        assert not self.gone, "a pass had a text whose caller had gone before it began"

    @invariant()
    def no_text_runs_more_than_twice(self) -> None:
        runs = Counter(row for groups, _ in self.fake.passes for group in groups for row in group)
        assert max(runs.values(), default=0) <= 2

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            self.loop.close()

    def finish(self) -> None:
        self.do(asyncio.sleep(60))
        if self.closed_at == float("inf"):
            self.closed_at = self.loop.time()
            self.do(self.batcher.close())
        self.groups_are_of_one_tenant()  # much may have run only now
        self.a_pass_that_its_groups_share_has_one_tenant()
        self.no_text_runs_more_than_twice()
        self.nobody_runs_who_had_gone()
        for one in self.requests:
            self.check(one)
        self.no_text_waits_while_nothing_runs()
        assert self.batcher.waiting == 0
        assert not self.loop.complaints

    def check(self, one: Request) -> None:
        assert one.task.done(), "a caller was left waiting"
        assert one.finished - one.began <= LIMITS.timeout + 1e-6
        if one.task.cancelled():
            assert one.cancelled
            return
        problem = one.task.exception()
        if problem is None:
            assert [found.answer for found in one.task.result()] == [text.upper() for text in one.texts]
        elif isinstance(problem, TimedOut):
            assert self.hung_during(one), "a request timed out though no pass took long"
        elif isinstance(problem, Unavailable):
            assert self.hung_during(one) or one.finished >= self.closed_at
        elif isinstance(problem, Overloaded):
            assert one.others >= LIMITS.max_tenant_queue, "a request was refused though the queue was not full"
        else:
            assert isinstance(problem, PassFailed)
            assert any(self.fake.failures[text] == 2 for text in one.texts), "nothing failed twice"

    def no_text_waits_while_nothing_runs(self) -> None:
        """Once a text has waited for `max_wait`, it goes in the next pass or waits for others that are running."""
        for report, began in zip(self.seen.reports, self.seen.begun, strict=True):
            due = began - max(report.queued) + LIMITS.max_wait
            running = sum(max(0.0, min(began, end) - max(due, start)) for start, end in self.fake.busy)
            assert began - due - running < 1e-6, "a text waited though its time had come and nothing ran"

    def hung_during(self, one: Request) -> bool:
        return any(one.began - HANG <= hang <= one.finished for hang in self.fake.hangs)


class DependentTraffic(Traffic):
    """The same with a model whose groups influence each other, so that a pass may only have one tenant."""

    gears = DEPENDENT


def tenant_of(row: str) -> str:
    return row.split(":")[0]


usual = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestTraffic = Traffic.TestCase
TestTraffic.settings = usual
TestDependentTraffic = DependentTraffic.TestCase
TestDependentTraffic.settings = usual


take, answer, fail, admit = TenantQueues.take, Ticket.answer, Ticket.fail, Batcher._admit
reason, serve_pass = NextPass._reason, Batcher._pass
GONE = "whose caller had gone"


def loses_a_text(queues: TenantQueues, *given: Any, **options: Any) -> Any:
    groups = take(queues, *given, **options)
    return [group[:-1] if len(group) > 1 else group for group in groups]


def mixes_tenants(queues: TenantQueues, *given: Any, **options: Any) -> Any:
    groups = take(queues, *given, **options)
    tenants = {item.tenant for group in groups for item in group}
    return [[item for group in groups for item in group]] if len(tenants) > 1 else groups


def mixes_texts_that_must_be_alone(queues: TenantQueues, *given: Any, **options: Any) -> Any:
    groups = take(queues, *given, **options)
    return [[item for group in groups for item in group]] if options["alone"] and groups else groups


def forgets_who_may_share(queues: TenantQueues, *given: Any, **options: Any) -> Any:
    return take(queues, *given, **options | {"one_tenant": False})


def swaps_answers(ticket: Ticket, place: int, answered: Any) -> None:
    answer(ticket, len(ticket.answers) - 1 - place, answered)


def tells_nobody(ticket: Ticket, error: Exception) -> None:
    pass


def fails_too_much(ticket: Ticket, place: int, answered: Any) -> None:
    fail(ticket, PassFailed("no reason")) if place == 1 else answer(ticket, place, answered)


def waits_too_long(self: NextPass, oldest: Item, now: float, closing: bool) -> tuple[str, float]:
    return reason(self, oldest, now - 3 * LIMITS.max_wait, closing)


def counts_from_the_last_text(self: NextPass, oldest: Item, now: float, closing: bool) -> tuple[str, float]:
    every = [item for items in self.queues._waiting.values() for item in items if item.alone == oldest.alone]
    return reason(self, max(every, key=lambda item: item.arrived), now, closing)


def refuses_too_much(batcher: Batcher, tenant: str) -> None:
    admit(batcher, tenant)
    if tenant == "b":
        raise Overloaded("no reason")


def drops_nobody(batcher: Batcher) -> None:
    batcher._someone_left = False


async def drops_before_it_waits(batcher: Batcher, reasons: Any) -> None:
    """As if the groups that callers chose ran first, and the rest was taken after them without another look."""
    if "given" in reasons and len(reasons) > 1:
        await serve_pass(batcher, {"given": reasons.pop("given")})
    await serve_pass(batcher, reasons)


@pytest.mark.parametrize(
    ("machine", "owner", "name", "wrong"),
    [
        (Traffic, TenantQueues, "take", loses_a_text),
        (Traffic, TenantQueues, "take", mixes_tenants),
        (Traffic, TenantQueues, "take", mixes_texts_that_must_be_alone),
        (DependentTraffic, TenantQueues, "take", forgets_who_may_share),
        (Traffic, Ticket, "answer", swaps_answers),
        (Traffic, Ticket, "answer", fails_too_much),
        (Traffic, Ticket, "fail", tells_nobody),
        (Traffic, Batcher, "_admit", refuses_too_much),
        (Traffic, NextPass, "_reason", waits_too_long),
        (Traffic, NextPass, "_reason", counts_from_the_last_text),
        (Traffic, Batcher, "_drop_gone", drops_nobody),
        (Traffic, Batcher, "_pass", drops_before_it_waits),
    ],
)
def test_the_machine_notices_a_batcher_that_errs(
    monkeypatch: pytest.MonkeyPatch, machine: Any, owner: Any, name: str, wrong: Any
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    # The search ends at the first failure. Some mistakes need many tries, and CI always makes the same ones.
    until_found = settings(
        usual,
        max_examples=6000,
        phases=[Phase.generate],
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
    )
    told = GONE if wrong in (drops_nobody, drops_before_it_waits) else None
    with pytest.raises(AssertionError, match=told):
        run_state_machine_as_test(machine, settings=until_found)
