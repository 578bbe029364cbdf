"""The batcher in single scenes: gears, fairness, limits, failures, hangs, leaving clients and shutdowns."""

import asyncio
from typing import Any

import pytest

from batching import GEARS, LIMITS, Fake, play
from datamux.serve.batcher import Batcher, Limits, Overloaded, PassFailed, TimedOut, Unavailable
from datamux.serve.queues import Item, TenantQueues


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


@pytest.mark.parametrize("tenants", [3, 20])
def test_a_backlog_gets_no_more_groups_than_other_tenants(tenants: int) -> None:
    """The tenant `flood` has the oldest text in every pass, and still waits for its turn."""
    queues = TenantQueues()
    names = ["flood", *(f"tenant {number}" for number in range(tenants - 1))]
    for name in names:
        for number in range(200):
            queues.add(Item(name, number, 5, float(number) + (0 if name == "flood" else 1000)))
    groups = [group for _ in range(20) for group in queues.take(1, alone=False, max_groups=8, max_tokens=10_000)]
    counts = [sum(group[0].tenant == name for group in groups) for name in names]
    assert sum(counts) == 160
    assert max(counts) - min(counts) <= 20 // tenants + 1


def test_a_text_of_an_unusual_length_is_not_passed_over_for_ever() -> None:
    queues = TenantQueues()
    for tenant in "ab":
        queues.add(Item(tenant, "long", 90, 0.0 if tenant == "a" else 0.5))
        for number in range(1, 50):
            queues.add(Item(tenant, number, 5, float(number)))
    first, second = (queues.take(1, alone=False, max_groups=2, max_tokens=10_000) for _ in range(2))
    assert "long" in {group[0].row for group in first}
    assert sum(group[0].row == "long" for group in first + second) == 2


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


def test_a_hanging_tokeniser_turns_health_red_until_it_answers() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.tokenising = 3.0
        slow = asyncio.ensure_future(batcher.submit("a", ["a:slow"]))
        await asyncio.sleep(LIMITS.pass_timeout - 0.1)
        assert batcher.alive
        await asyncio.sleep(0.2)
        assert not batcher.alive
        with pytest.raises(Unavailable, match="does not answer"):
            await batcher.submit("a", ["a:next"])
        assert (await slow)[0].answer == "A:SLOW"
        assert batcher.alive

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
    assert seen.drops == {("a", "client left"): 2}


def test_only_texts_whose_callers_still_waited_count_as_answered() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        leaves = asyncio.ensure_future(batcher.submit("a", ["a:gone", "a:too"]))
        stays = asyncio.ensure_future(batcher.submit("b", ["b:stays"]))
        await asyncio.sleep(LIMITS.max_wait + 0.001)  # the pass runs
        leaves.cancel()
        await stays

    fake, seen = play(scenario)
    assert len(fake.passes) == 1
    assert [report.answered for report in seen.reports] == [{"b": 1}]
    assert seen.drops == {("a", "client left"): 2}


def test_texts_of_a_request_that_has_failed_share_no_group_with_the_next_one() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        failing = asyncio.ensure_future(
            batcher.submit("a", ["a:poison", *(f"a:old{number:03}" for number in range(20))])
        )
        await asyncio.sleep(0.001)
        later = asyncio.ensure_future(batcher.submit("a", [f"a:new{number}" for number in range(9)]))
        with pytest.raises(PassFailed):
            await failing
        await later

    fake, seen = play(scenario, Limits(max_wait=0.01, max_groups=1))
    ran = [row for groups, _ in fake.passes for group in groups for row in group]
    assert {row for row in ran if "old" in row} == {f"a:old{number:03}" for number in range(6)}  # of the first pass
    assert seen.drops == {("a", "failed"): 21}


def test_texts_of_who_leaves_during_a_pass_share_no_group_with_the_next_request() -> None:
    """The pass is one whose groups its caller chose."""

    async def scenario(batcher: Batcher, fake: Fake) -> None:
        given = asyncio.ensure_future(batcher.run_groups("b", [["b:x"]], GEARS.gears[1]))
        leaves = asyncio.ensure_future(batcher.submit("a", ["a:gone", "a:too"]))
        await asyncio.sleep(LIMITS.max_wait + 0.001)
        leaves.cancel()
        await batcher.submit("a", ["a:stays"])
        await given

    fake, _ = play(scenario)
    assert [groups for groups, _ in fake.passes] == [[["b:x"]], [["a:stays"]]]


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
