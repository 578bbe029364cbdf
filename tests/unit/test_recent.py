"""What the live chart is told, in a time that the test controls; and which texts the playground mixes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamux.serve.batcher import PassReport, Silence
from datamux.serve.gears import Gear
from datamux.serve.playground import make_groups
from datamux.serve.recent import SAMPLES, SECONDS, RecentPasses


class Listener(Silence):
    def __init__(self) -> None:
        self.heard: list[object] = []

    def passed(self, report: PassReport) -> None:
        self.heard.append(report)

    def dropped(self, tenant: str, texts: int, why: str) -> None:
        self.heard.append(tenant)

    def refused(self, tenant: str, why: str) -> None:
        self.heard.append((tenant, why))


class Minute:
    def __init__(self) -> None:
        self.now, self.queue = 1000.0, 0
        self.listener = Listener()
        self.recent = RecentPasses(self.listener, lambda: self.queue, lambda: self.now)

    def run(self, sizes: list[int], *, group_size: int = 5, queued: float = 0.1, seconds: float = 0.05) -> PassReport:
        groups = [("anna", size) for size in sizes]
        gear = Gear(f"mux-{group_size}", group_size)
        report = PassReport(gear, "full", groups, 30, 40, [queued] * sum(sizes), seconds, False)
        self.recent.passed(report)
        return report


@pytest.fixture
def minute() -> Minute:
    return Minute()


def test_an_idle_server_has_no_latency_and_no_history(minute):
    told = minute.recent.summary()
    assert (told["queue"], told["texts_per_second"], told["p50"], told["p95"], told["history"]) == (
        0,
        0,
        None,
        None,
        [],
    )


def test_passes_of_one_second_are_told_together(minute):
    minute.queue = 7
    minute.run([5, 5])
    minute.queue = 2
    minute.run([1], group_size=1, seconds=0.15)
    minute.now += 1.5
    (second,) = minute.recent.summary()["history"]
    assert second["age"] == 1
    assert (second["passes"], second["texts"], second["queue"]) == (2, 11, 7)
    assert (second["group_size"], second["gear"], second["fill"]) == (5, "mux-5", 1.0)
    assert second["seconds"] == pytest.approx(0.1)
    assert (second["p50"], second["p95"]) == pytest.approx((0.15, 0.25))  # in the queue and in the pass


def test_the_rate_is_that_of_the_last_two_seconds(minute):
    minute.run([5, 5])
    minute.now += 1
    minute.run([2])
    assert minute.recent.summary()["texts_per_second"] == pytest.approx(12)
    minute.now += 5
    assert minute.recent.summary()["texts_per_second"] == 0


def test_a_minute_later_everything_is_forgotten(minute):
    for _ in range(3 * SECONDS):
        minute.run([1])
        minute.now += 1
    told = minute.recent.summary()["history"]
    assert [second["age"] for second in told] == list(range(len(told), 0, -1))
    assert len(told) == SECONDS - 1
    minute.now += SECONDS
    assert minute.recent.summary()["history"] == []


def test_it_stays_small_under_any_load(minute):
    for _ in range(1000):
        minute.run([5] * 20)
    assert sum(len(second.waits) for second in minute.recent._seconds) == SAMPLES
    (second,) = minute.recent.summary()["history"]
    assert second["texts"] == 100_000


def test_who_listened_before_still_hears_everything(minute):
    report = minute.run([3])
    minute.recent.dropped("anna", 3, "client left")
    minute.recent.refused("bert", "Overloaded")
    assert minute.listener.heard == [report, "anna", ("bert", "Overloaded")]


@given(st.integers(1, 256), st.integers(1, 40), st.integers(0, 2**31 - 1))
def test_every_text_has_exactly_one_place(texts, group_size, seed):
    groups = make_groups(texts, group_size, seed)
    assert Counter(number for group in groups for number in group) == Counter(range(texts))
    assert [len(group) for group in groups[:-1]] == [group_size] * (len(groups) - 1)
    assert 1 <= len(groups[-1]) <= group_size
    assert groups == make_groups(texts, group_size, seed)


def test_seed_0_keeps_the_order_and_the_others_change_it():
    assert make_groups(7, 3, 0) == [[0, 1, 2], [3, 4, 5], [6]]
    orders = {str(make_groups(20, 5, seed)) for seed in range(10)}
    assert len(orders) == 10
