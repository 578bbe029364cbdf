"""The batcher under random arrivals, cancellations, failures, hangs and shutdowns, in a time that the test controls."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from datamux.serve.batcher import (
    Batcher,
    Limits,
    Overloaded,
    PassFailed,
    PassReport,
    Refused,
    TimedOut,
    Unavailable,
)
from datamux.serve.gears import Gear, Gearbox
from datamux.serve.queues import Item, TenantQueues
from datamux.serve.tokenising import Joined

GEARS = Gearbox([Gear("one", 1), Gear("three", 3), Gear("seven", 7)])
LIMITS = Limits(
    max_wait=0.01, max_groups=4, max_tokens=200, max_queue=60, max_tenant_queue=40, timeout=5.0, pass_timeout=1.0
)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        select = self._selector.select

        def jump(timeout: float | None) -> Any:
            if timeout is not None and timeout > 0:
                self.now += timeout
            return select(0)

        self._selector.select = jump  # type: ignore[method-assign]

    def time(self) -> float:
        return self.now


class Fake:
    """Answers "TENANT:TEXT" with its text in capital letters, and remembers who was run with whom."""

    def __init__(self) -> None:
        self.passes: list[tuple[list[list[str]], Gear]] = []
        self.fail_next = 0
        self.seconds = 0.02
        self.hang_next = False

    def tokenise(self, texts: Any) -> list[tuple[str, int]]:
        if any(not text for text in texts):
            raise ValueError("a text is empty")
        return [(text, len(text)) for text in texts]

    def answer(self, groups: list[list[str]], gear: Gear) -> list[list[str]]:
        self.passes.append((groups, gear))
        if self.fail_next:
            self.fail_next -= 1
            raise RuntimeError("out of memory")
        if any("poison" in row for group in groups for row in group):
            raise RuntimeError("this text breaks the model")
        return [[row.upper() for row in group] for group in groups]

    async def run(self, work: Any, *given: Any) -> Any:
        if work == self.answer:
            hang, self.hang_next = self.hang_next, False
            await asyncio.sleep(3 * LIMITS.pass_timeout if hang else self.seconds)
        return work(*given)


class Seen:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.reports: list[PassReport] = []
        self.drops: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def passed(self, report: PassReport) -> None:
        self.reports.append(report)

    def dropped(self, tenant: str) -> None:
        self.drops[tenant] += 1

    def refused(self, tenant: str, why: str) -> None:
        self.refusals[why] += 1


class Traffic(RuleBasedStateMachine):
    """Every accepted text is answered once with its own answer, or its caller is told; no group has two tenants."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.fake, self.seen = Fake(), Seen()
        self.batcher = Batcher(self.fake, GEARS, LIMITS, observer=self.seen, run=self.fake.run)
        self.requests: list[tuple[asyncio.Task[Any], list[str], float]] = []
        self.cancelled: set[int] = set()
        self.finished_at: dict[int, float] = {}
        self.closed = False
        self.number = 0
        self.do(self._start())

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
        self._start_request(self.batcher.submit(tenant, texts, alone=alone), texts)

    def _start_request(self, work: Any, texts: list[str]) -> None:
        task = self.loop.create_task(work)
        number = len(self.requests)
        task.add_done_callback(lambda _: self.finished_at.setdefault(number, self.loop.time()))
        self.requests.append((task, texts, self.loop.time()))

    @rule(tenant=st.sampled_from("abc"), sizes=st.lists(st.integers(1, 3), min_size=1, max_size=9))
    def request_with_groups(self, tenant: str, sizes: list[int]) -> None:
        """The caller chooses the groups."""
        texts = []
        for size in sizes:
            self.number += 1
            texts.append([f"{tenant}:given{self.number}:{place}:x" for place in range(size)])

        async def ask() -> list[Any]:
            return [one for group in await self.batcher.run_groups(tenant, texts, GEARS.gears[1]) for one in group]

        self._start_request(ask(), [text for group in texts for text in group])

    @rule(seconds=st.sampled_from([0.001, 0.011, 0.05, 0.3]))
    def wait(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))

    @precondition(lambda self: self.requests)
    @rule(chance=st.randoms(use_true_random=False))
    def client_leaves(self, chance: Any) -> None:
        number = chance.randrange(len(self.requests))
        self.requests[number][0].cancel()
        self.cancelled.add(number)

    @rule(times=st.integers(1, 3))
    def passes_fail(self, times: int) -> None:
        self.fake.fail_next = times

    @rule()
    def a_pass_hangs(self) -> None:
        self.fake.hang_next = True

    @precondition(lambda self: not self.closed)
    @rule()
    def shut_down(self) -> None:
        self.closed = True
        self.do(self.batcher.close(grace=20.0))
        assert all(task.done() for task, _, _ in self.requests)

    @invariant()
    def groups_are_of_one_tenant(self) -> None:
        for groups, gear in self.fake.passes:
            assert len(groups) <= LIMITS.max_groups
            for group in groups:
                assert len({row.split(":")[0] for row in group}) == 1
                assert len(group) <= gear.group_size
                assert len(group) == 1 or not any(":alone:" in row for row in group)
                given = {row.split(":")[1] for row in group if ":given" in row}
                assert not given or (len(given) == 1 and all(":given" in row for row in group))

    @invariant()
    def no_text_runs_more_than_twice(self) -> None:
        runs = Counter(row for groups, _ in self.fake.passes for group in groups for row in group)
        assert max(runs.values(), default=0) <= 2

    def teardown(self) -> None:
        self.do(asyncio.sleep(60))
        if not self.closed:
            self.do(self.batcher.close())
        answered: Counter[str] = Counter()
        for number, (task, texts, began) in enumerate(self.requests):
            assert task.done(), "a caller was left waiting"
            assert self.finished_at[number] - began <= LIMITS.timeout + 1e-6
            if task.cancelled():
                assert number in self.cancelled
                continue
            if task.exception() is not None:
                assert isinstance(task.exception(), Refused | TimedOut | PassFailed)
                if isinstance(task.exception(), PassFailed):
                    assert any("poison" in text for text in texts) or self.fake_failed()
                continue
            found = task.result()
            assert [one.answer for one in found] == [text.upper() for text in texts]
            answered.update(texts)
        assert max(answered.values(), default=0) <= 1
        self.loop.close()

    def fake_failed(self) -> bool:
        return any(report.failed for report in self.seen.reports)


Traffic.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestTraffic = Traffic.TestCase


def play(scenario: Any, limits: Limits = LIMITS, gears: Gearbox = GEARS) -> tuple[Fake, Seen]:
    """Run `scenario(batcher, fake)` in virtual time."""
    loop = VirtualLoop()
    fake, seen = Fake(), Seen()

    async def scene() -> None:
        batcher = Batcher(fake, gears, limits, observer=seen, run=fake.run)
        batcher.start()
        await scenario(batcher, fake)
        await batcher.close()

    loop.run_until_complete(scene())
    loop.close()
    return fake, seen


def test_one_text_on_an_idle_server_uses_the_most_accurate_gear() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        (found,) = await batcher.submit("a", ["a:hello"])
        assert (found.answer, found.gear.name, found.group_size) == ("A:HELLO", "one", 1)
        assert found.queued == pytest.approx(LIMITS.max_wait)

    play(scenario)


def test_load_shifts_the_gear_up_and_calm_shifts_it_down() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        many = await batcher.submit("a", [f"a:{number}" for number in range(28)])
        assert {one.gear.name for one in many} == {"seven"}
        assert len({one.group for one in many}) == 4
        some = await batcher.submit("a", [f"a:{number}" for number in range(10)])
        assert {one.gear.name for one in some} == {"three"}
        (last,) = await batcher.submit("a", ["a:x"])
        assert last.gear.name == "one"

    play(scenario)


def test_a_busy_tenant_does_not_push_another_one_back() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        busy = [f"busy:{number}" for number in range(40)]
        flood = asyncio.ensure_future(batcher.submit("busy", busy))
        await asyncio.sleep(0.011)
        started = asyncio.get_running_loop().time()
        await batcher.submit("calm", ["calm:one"])
        assert asyncio.get_running_loop().time() - started <= 3 * fake.seconds
        await flood

    play(scenario)


def test_similar_lengths_share_a_group() -> None:
    queues = TenantQueues()
    for number, length in enumerate([5, 90, 6, 88, 7, 91]):
        queues.add(Item("a", number, length, float(number)))
    groups = queues.take(3, alone=False, max_groups=2, max_tokens=10_000)
    assert sorted(sorted(item.length for item in group) for group in groups) == [[5, 6, 7], [88, 90, 91]]


def test_a_pass_is_bounded_by_tokens_but_a_long_text_still_runs() -> None:
    queues = TenantQueues()
    for tenant, length in (("a", 500), ("b", 10), ("c", 20)):
        queues.add(Item(tenant, tenant, length, 0.0))
    assert [group[0].row for group in queues.take(1, alone=False, max_groups=9, max_tokens=100)] == ["a"]
    assert [group[0].row for group in queues.take(1, alone=False, max_groups=9, max_tokens=100)] == ["b", "c"]


def test_a_full_queue_refuses_single_texts_and_batches_alike() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        flood = asyncio.ensure_future(batcher.submit("a", [f"a:{number}" for number in range(200)]))
        await asyncio.sleep(0.001)
        for texts in (["a:one"], ["a:one", "a:two"]):
            with pytest.raises(Overloaded) as refused:
                await batcher.submit("a", texts)
            assert refused.value.retry_after >= 1
        assert len(await flood) == 200  # a batch larger than the queue is split, not refused

    _, seen = play(scenario, Limits(max_tenant_queue=30, max_queue=300, max_wait=0.01, max_groups=4))
    assert seen.refusals["Overloaded"] == 2


def test_a_failing_text_fails_only_itself() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        good = [asyncio.ensure_future(batcher.submit("a", [f"a:{number}"])) for number in range(13)]
        bad = asyncio.ensure_future(batcher.submit("a", ["a:poison"]))
        answers = await asyncio.gather(*good)
        assert [found[0].answer for found in answers] == [f"A:{number}" for number in range(13)]
        with pytest.raises(PassFailed, match="failed on this text"):
            await bad

    play(scenario)


def test_a_hanging_pass_tells_its_callers_and_the_server_recovers() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.hang_next = True
        with pytest.raises(TimedOut, match="did not answer within 1 seconds"):
            await batcher.submit("a", ["a:slow"])
        assert not batcher.healthy
        with pytest.raises(Unavailable, match="does not answer"):
            await batcher.submit("a", ["a:next"])
        await asyncio.sleep(3)
        assert batcher.healthy
        assert (await batcher.submit("a", ["a:later"]))[0].answer == "A:LATER"

    play(scenario)


def test_a_dead_loop_fails_every_caller_and_turns_health_red() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        waiting = asyncio.ensure_future(batcher.submit("a", [f"a:{number}" for number in range(3)]))
        await asyncio.sleep(0.001)

        def broken(*given: Any, **options: Any) -> Any:
            raise RuntimeError("a bug in the queue")

        batcher.queues.take = broken  # type: ignore[method-assign]
        with pytest.raises(Unavailable, match="loop has stopped"):
            await waiting
        assert not batcher.healthy
        with pytest.raises(Unavailable):
            await batcher.submit("a", ["a:next"])

    play(scenario)


def test_texts_of_a_client_that_has_gone_are_dropped_and_counted() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        leaves = asyncio.ensure_future(batcher.submit("a", ["a:gone", "a:too"]))
        await asyncio.sleep(0.001)
        leaves.cancel()
        await batcher.submit("b", ["b:stays"])

    fake, seen = play(scenario)
    assert [groups for groups, _ in fake.passes] == [[["b:stays"]]]
    assert seen.drops == {"a": 2}


def test_closing_answers_what_was_accepted_and_refuses_the_rest() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        accepted = asyncio.ensure_future(batcher.submit("a", [f"a:{number}" for number in range(50)]))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(batcher.close())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="shutting down"):
            await batcher.submit("a", ["a:late"])
        await closing
        assert [one.answer for one in await accepted] == [f"A:{number}" for number in range(50)]

    play(scenario)


def test_a_text_that_cannot_be_tokenised_is_the_callers_error() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        with pytest.raises(ValueError, match="empty"):
            await batcher.submit("a", [""])

    play(scenario)


def test_given_groups_run_as_they_are_and_take_turns_with_others() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        groups = [[f"a:{group}{slot}" for slot in range(1 + group % 3)] for group in range(9)]
        others = asyncio.ensure_future(batcher.submit("a", [f"a:other{number}" for number in range(5)]))
        found = await batcher.run_groups("a", groups, GEARS.gears[1])
        assert [[one.answer for one in group] for group in found] == [[text.upper() for text in g] for g in groups]
        assert [[one.slot for one in group] for group in found] == [list(range(len(g))) for g in groups]
        assert {one.gear.name for group in found for one in group} == {"three"}
        await others
        with pytest.raises(ValueError, match="1 to 3 texts; the largest has 4"):
            await batcher.run_groups("a", [["a:1"] * 4], GEARS.gears[1])

    fake, seen = play(scenario)
    assert max(len(groups) for groups, _ in fake.passes) <= LIMITS.max_groups
    assert {report.reason for report in seen.reports} >= {"given"}
    assert all(len({"other" in row for row in group}) == 1 for groups, _ in fake.passes for group in groups)


def test_requests_are_tokenised_together_and_only_a_bad_one_is_told() -> None:
    calls: list[list[str]] = []

    async def tokenise(texts: Any) -> list[tuple[str, int]]:
        calls.append(list(texts))
        await asyncio.sleep(0.01)
        if "" in texts:
            raise ValueError("a text is empty")
        return [(text, len(text)) for text in texts]

    async def scene() -> None:
        joined = Joined(tokenise)
        first = asyncio.ensure_future(joined(["a"]))
        await asyncio.sleep(0.001)
        others = [asyncio.ensure_future(joined(texts)) for texts in (["bb", "c"], [""], ["dd"])]
        leaves = asyncio.ensure_future(joined(["gone"]))
        await asyncio.sleep(0.001)
        leaves.cancel()
        assert await first == [("a", 1)]
        assert await others[0] == [("bb", 2), ("c", 1)]
        with pytest.raises(ValueError, match="empty"):
            await others[1]
        assert await others[2] == [("dd", 2)]

    asyncio.run(scene())
    assert calls[:2] == [["a"], ["bb", "c", "", "dd", "gone"]]


def test_real_threads_answer_as_well() -> None:
    async def scene() -> None:
        fake = Fake()
        batcher = Batcher(fake, GEARS)
        batcher.start()
        answers = await asyncio.gather(*(batcher.submit(t, [f"{t}:{n}" for n in range(9)]) for t in "abcd"))
        assert [one.answer for found in answers for one in found] == [
            f"{t}:{n}".upper() for t in "abcd" for n in range(9)
        ]
        await batcher.close()

    asyncio.run(scene())
