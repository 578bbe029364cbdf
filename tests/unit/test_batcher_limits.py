"""What busy tenants, long texts and leaving clients may cost others: tokenising, admission, and groups of one's own."""

import asyncio
import logging
from typing import Any

import pytest

from batching import GEARS, LIMITS, Fake, VirtualLoop, play
from datamux.serve.admission import RESERVE
from datamux.serve.batcher import Batcher, Limits, Overloaded, PassFailed, TimedOut, Unavailable
from datamux.serve.given import GivenPass, GivenPasses
from datamux.serve.queues import Item
from datamux.serve.tokenising import FEED, LETTERS, Joined, letters_of, parts_of, time_for

# Tokenising


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
        first = asyncio.ensure_future(joined("a", ["a"]))
        await asyncio.sleep(0.001)
        others = [asyncio.ensure_future(joined("a", texts)) for texts in (["bb", "c"], [""], ["dd"])]
        leaves = asyncio.ensure_future(joined("a", ["gone"]))
        await asyncio.sleep(0.001)
        leaves.cancel()
        assert await first == [("a", 1)]
        assert await others[0] == [("bb", 2), ("c", 1)]
        with pytest.raises(ValueError, match="empty"):
            await others[1]
        assert await others[2] == [("dd", 2)]

    loop = VirtualLoop()  # so that a busy machine changes nothing
    loop.run_until_complete(scene())
    loop.close()
    assert calls == [["a"], ["bb", "c", "", "dd"], ["bb", "c"], ["", "dd"], [""], ["dd"]]  # halves until it is alone


def test_texts_of_clients_that_have_gone_are_neither_tokenised_nor_kept() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.tokenising = 0.1
        first = asyncio.ensure_future(batcher.submit("a", ["a:first"]))
        await asyncio.sleep(0.01)
        for _ in range(500):
            leaves = asyncio.ensure_future(batcher.submit("a", ["a:gone"] * 10))
            await asyncio.sleep(0.0001)
            leaves.cancel()
        began = asyncio.get_running_loop().time()
        await batcher.submit("b", ["b:stays"])
        assert asyncio.get_running_loop().time() - began < 3 * fake.tokenising
        await first

    fake, seen = play(scenario)
    assert not any("gone" in text for texts in fake.tokenised for text in texts)
    assert seen.drops == {("a", "client left"): 5000}


def test_tenants_take_turns_at_the_tokeniser() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.tokenising = 0.1
        long = "a:" + "x" * LETTERS
        flood = [asyncio.ensure_future(batcher.submit("a", [long])) for _ in range(20)]
        await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
        await batcher.submit("b", ["b:short"])
        assert asyncio.get_running_loop().time() - began < 4 * fake.tokenising
        for one in flood:
            one.cancel()

    play(scenario)


def test_a_call_of_the_tokeniser_is_bounded_by_characters() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.tokenising = 0.001
        texts = [f"a:{number}:" + "x" * (LETTERS // 10) for number in range(35)]
        await asyncio.gather(batcher.submit("a", texts), batcher.submit("b", ["b:x"]), batcher.submit("b", ["b:y"]))

    fake, _ = play(scenario)
    assert max(sum(map(len, texts)) for texts in fake.tokenised) <= LETTERS
    assert len([texts for texts in fake.tokenised if len(texts) > 1]) >= 4


def test_parts_hold_every_text_once_in_order() -> None:
    texts = ["x" * (LETTERS // 3), "y", "z" * (2 * LETTERS), *["short"] * (2 * FEED)]
    parts = list(parts_of(texts))
    assert [text for part in parts for text in part] == texts
    assert [len(part) for part in parts] == [2, 1, FEED, FEED]
    assert list(parts_of([])) == []
    assert [letters_of(text) for text in ("abc", ("ab", "c"), ["ab", ""], {"text": "a", "text_pair": "b"})] == [
        3,
        5,
        4,
        4,
    ]


# How much may wait


def test_a_tenant_below_its_share_gets_in_when_others_have_filled_the_queue() -> None:
    limits = Limits(max_queue=100, max_tenant_queue=60, max_wait=0.01, max_groups=1)

    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.seconds = 1.0
        flood = [
            asyncio.ensure_future(batcher.submit(tenant, [f"{tenant}:{number}" for number in range(59)]))
            for tenant in "ab"
        ]
        await asyncio.sleep(0.02)
        assert batcher.waiting >= limits.max_queue
        with pytest.raises(Overloaded, match="texts wait already"):
            await batcher.submit("a", ["a:more"])
        (found,) = await batcher.submit("c", ["c:one"])
        assert found.answer == "C:ONE"
        for one in flood:
            one.cancel()

    play(scenario, limits)


def test_even_with_shares_the_queue_has_an_end() -> None:
    limits = Limits(max_queue=40, max_tenant_queue=20, max_wait=0.01, max_groups=1)

    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.hang_next = True
        work = [asyncio.ensure_future(batcher.submit(f"t{tenant}", ["t:x"])) for tenant in range(500)]
        await asyncio.sleep(0.1)
        assert limits.max_queue <= batcher.waiting <= RESERVE * limits.max_queue
        for one in work:
            one.cancel()

    _, seen = play(scenario, limits)
    assert seen.refusals["Overloaded"] >= 500 - RESERVE * limits.max_queue - 1


def test_characters_are_limited_too_and_counted_until_the_answer() -> None:
    limits = Limits(max_letters=10_000, max_queue=100, max_tenant_queue=50, max_wait=0.01)

    async def scenario(batcher: Batcher, fake: Fake) -> None:
        long = asyncio.ensure_future(batcher.submit("a", ["a:" + "x" * 6000]))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="6002 characters of this tenant"):
            await batcher.submit("a", ["a:y"])
        other = asyncio.ensure_future(batcher.submit("b", ["b:" + "x" * 4000]))
        await asyncio.sleep(0)
        third = asyncio.ensure_future(batcher.submit("c", ["c:y" + "x" * 3500]))  # less than a third
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="13507 characters wait"):
            await batcher.submit("b", ["b:y"])
        await asyncio.gather(long, other, third)
        await batcher.submit("a", ["a:y"])

    play(scenario, limits)


# Groups that the caller chose


def test_groups_of_ones_own_are_fair_between_tenants() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        flood = [asyncio.ensure_future(batcher.run_groups("a", [["a:x"]] * 30, GEARS.gears[0])) for _ in range(2)]
        await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
        await batcher.run_groups("b", [["b:x"]], GEARS.gears[0])
        assert asyncio.get_running_loop().time() - began < 4 * fake.seconds
        await asyncio.gather(*flood)

    play(scenario)


def test_given_passes_are_counted_by_tenant() -> None:
    class Caller:
        gone = False

    leaves, stays = Caller(), Caller()
    given = GivenPasses()
    for tenant, count, caller in (("a", 3, leaves), ("a", 2, stays), ("b", 4, stays), ("a", 1, stays)):
        items = [Item(tenant, number, 1, 0.0, caller=caller) for number in range(count)]
        given.add(GivenPass([items], GEARS.gears[1]))
    assert (len(given), given.texts) == (10, {"a": 6, "b": 4})
    leaves.gone = True
    assert given.drop_gone()
    assert not given.drop_gone()
    assert (len(given), given.texts) == (7, {"a": 3, "b": 4})
    assert given.tenants() == ["a", "b"]
    assert [len(given.take(tenant).items) for tenant in "aba"] == [2, 4, 1]
    assert (len(given), given.texts) == (0, {})


# What callers are told, and when


def test_a_request_that_has_failed_is_told_at_once() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        texts = ["a:poison", *(f"a:{number}" for number in range(2000))]
        began = asyncio.get_running_loop().time()
        with pytest.raises(PassFailed):
            await batcher.submit("a", texts)
        assert asyncio.get_running_loop().time() - began < 40 * fake.seconds
        (found,) = await batcher.submit("a", ["a:next"])
        assert found.answer == "A:NEXT"

    _, seen = play(scenario)
    assert seen.drops["a", "failed"] > 1900


def test_a_request_that_fails_while_it_waits_for_room_is_told_at_once() -> None:
    limits = Limits(max_queue=20, max_tenant_queue=20, max_wait=0.01, max_groups=1, max_tokens=200, timeout=50.0)

    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.hang_next = True
        began = asyncio.get_running_loop().time()
        with pytest.raises(TimedOut, match="the model did not answer"):
            await batcher.submit("a", [f"a:{number}" for number in range(1000)])
        assert asyncio.get_running_loop().time() - began < 0.6  # and not when the pass that hangs has ended

    play(scenario, Limits(**vars(limits) | {"pass_timeout": 0.5}))


def test_a_request_has_time_for_each_part_of_its_texts() -> None:
    limits = Limits(max_wait=0.01, max_groups=1, timeout=2.0)

    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.seconds = 0.09  # for 7 texts, so 256 take 3.3 seconds and 1000 take 12.9
        with pytest.raises(TimedOut, match="not answered within 2 seconds"):
            await batcher.submit("a", ["a:x"] * FEED)
        with pytest.raises(TimedOut, match="not answered within 8 seconds"):
            await batcher.submit("a", ["a:x"] * 1000)
        fake.seconds = 0.05
        began = asyncio.get_running_loop().time()
        assert len(await batcher.submit("a", ["a:x"] * 1000)) == 1000
        assert asyncio.get_running_loop().time() - began > 3 * limits.timeout

    play(scenario, limits)


def test_the_time_for_a_request_grows_with_its_texts() -> None:
    assert [time_for(texts, 60.0) for texts in (0, 1, FEED, FEED + 1, 10 * FEED)] == [60, 60, 60, 120, 600]


@pytest.mark.parametrize("grace", [0.0, 0.05])
def test_who_is_tokenised_when_the_grace_is_over_is_told_that_the_server_was_shut_down(grace: float) -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.tokenising = 1.0
        waiting = [asyncio.ensure_future(batcher.submit("a", ["a:x"])) for _ in range(3)]
        await asyncio.sleep(0.01)
        await batcher.close(grace)
        began = asyncio.get_running_loop().time()
        for one in waiting:
            with pytest.raises(Unavailable, match="shut down"):
                await one
        assert asyncio.get_running_loop().time() == began

    _, seen = play(scenario)
    assert seen.drops == {("a", "server stopped"): 3}


def test_real_threads_that_are_stopped_say_unavailable() -> None:
    class Slow(Fake):
        def tokenise(self, texts: Any) -> list[tuple[str, int]]:
            import time

            time.sleep(0.1)
            return super().tokenise(texts)

    async def scene() -> list[Any]:
        batcher = Batcher(Slow(), GEARS, LIMITS)
        batcher.start()
        waiting = [asyncio.ensure_future(batcher.submit("a", [f"a:{number}"])) for number in range(2)]
        await asyncio.sleep(0.02)
        waiting.append(asyncio.ensure_future(batcher.submit("a", ["a:later"])))
        await asyncio.sleep(0.02)
        await batcher.close(0.0)
        found = await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.sleep(0.2)  # the call that ran ends, and finds nobody
        return found

    assert [type(one) for one in asyncio.run(scene())] == [Unavailable] * 3


def test_a_pass_that_hangs_and_fails_later_is_logged_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.hang_next = True
        with pytest.raises(TimedOut):
            await batcher.submit("a", ["a:poison secret"])
        await asyncio.sleep(5)

    with caplog.at_level(logging.ERROR):
        fake, _ = play(scenario)
    assert [record.message for record in caplog.records] == ["a pass that nobody waits for any more has failed"]
    assert fake.complaints == []


def test_each_text_that_is_tried_again_is_reported() -> None:
    async def scenario(batcher: Batcher, fake: Fake) -> None:
        fake.fail_next = 1
        await batcher.submit("a", ["a:x", "a:y", "a:z"])

    _, seen = play(scenario)
    assert [(report.reason, report.failed, len(report.queued)) for report in seen.reports] == [
        ("waited", True, 3),
        ("again", False, 1),
        ("again", False, 1),
        ("again", False, 1),
    ]
