"""The arithmetic of the benchmark, with a clock that we turn ourselves; and that the real thing runs."""

import pytest

from datamux.evaluate.bench import run_memory, run_parts, run_speed
from datamux.evaluate.contenders import lengths_of
from datamux.evaluate.speed import Contender, compare_speed, tune


class Machine:
    """Takes `cost` seconds an instance and `start` seconds a pass."""

    def __init__(self):
        self.now = 0.0

    def clock(self):
        return self.now

    def contender(self, name, cost, start, group_size=1):
        def work(instances, positions):
            passes = -(-instances // (group_size * max(1, positions // 32)))
            self.now += instances * cost + passes * (start + (positions > 2048) * 5)

        return Contender(name, work, group_size)


def test_the_best_batch_size_is_found_and_ratios_are_taken_within_a_round():
    machine = Machine()
    plain, fast = machine.contender("plain", 0.01, 0.05), machine.contender("fast", 0.001, 0.005, group_size=10)
    found = tune(plain, (256, 512, 1024, 2048, 4096), 10.0, machine.clock)
    assert max(found, key=lambda size: found[size]) == 2048
    assert found[2048] == pytest.approx(1 / (0.01 + 0.05 / 64), rel=0.1)
    one, other = compare_speed([plain, fast], rounds=3, samples=6400, positions=(256, 2048, 4096), clock=machine.clock)
    assert one.ratios == [1.0, 1.0, 1.0]
    assert len(other.rates) == 3
    expected = (6400 * 0.01 + 100 * 0.05) / (6400 * 0.001 + 10 * 0.005)
    assert other.ratio == pytest.approx(expected)
    assert other.as_dict()["lowest"] <= other.ratio <= other.as_dict()["highest"]


def test_a_machine_that_slows_down_does_not_change_the_ratios():
    now = 0.0

    def contender(name, cost):
        def work(instances, positions):
            nonlocal now
            now += instances * cost * (1 + now)  # ever slower

        return Contender(name, work)

    three = [contender("plain", 0.001), contender("a", 0.0005), contender("b", 0.0001)]
    found = compare_speed(three, rounds=5, samples=64, positions=(256,), clock=lambda: now)
    assert found[0].rates[0] > 2 * found[0].rates[-1]
    assert [speed.ratio for speed in found] == pytest.approx([1.0, 2.0, 10.0], rel=0.04)


def test_a_contender_may_name_its_rival():
    machine = Machine()
    plain, other = machine.contender("plain", 0.01, 0.0), machine.contender("other", 0.005, 0.0)
    mixed = machine.contender("mixed", 0.001, 0.0)
    mixed.against = "other"
    found = compare_speed([plain, other, mixed], rounds=1, samples=64, positions=(256,), clock=machine.clock)
    assert [speed.ratio for speed in found] == pytest.approx([1.0, 2.0, 5.0])


def test_lengths():
    assert lengths_of("fixed:7", 3) == [7, 7, 7]
    with pytest.raises(ValueError, match="fixed:TOKENS"):
        lengths_of("fixed:x", 3)


TINY = {"layers": 1, "hidden": 16, "heads": 2, "token_level": False}


def test_the_benchmark_runs():
    found = run_speed(
        model=None,
        shape=TINY,
        group_sizes=[2, 3],
        lengths="fixed:8",
        texts=False,
        engines=["torch"],
        demultiplexers=["gate", "index"],
        samples=24,
        rounds=2,
        seconds=0.01,
    )
    names = [row["name"] for row in found["results"]]
    assert names[0] == "plain, torch"
    assert len(names) == 5
    assert all(row["instances"] == 24 and len(row["rates"]) == 2 for row in found["results"])


def test_memory_of_its_own_process():
    found = run_memory(shape=TINY, group_sizes=[1, 4], tokens=16, groups=8, demultiplexer="gate")
    assert [row["group_size"] for row in found["results"]] == [1, 4]
    assert found["results"][0]["ratio"] == 1.0
    assert all(row["peak"] >= row["model"] >= 0 for row in found["results"])


def test_the_parts_make_up_the_pass():
    shape = {"layers": 2, "hidden": 32, "heads": 2, "token_level": False}
    found = run_parts(shape=shape, group_sizes=[1, 4], tokens=8, groups=4, bf16=False)
    assert [row["group_size"] for row in found["results"]] == [1, 4]
    for row in found["results"]:
        assert all(row[name] > 0 for name in ("mixing", "encoder", "demultiplexer", "head", "plain"))
        assert row["encoder"] > row["head"], "two layers take longer than one small matrix"
