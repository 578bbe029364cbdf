"""Which model is chosen, how sure that is, and what is said if nothing is good enough."""

import numpy as np
import pytest

from datamux.evaluate.frontier import Point, mark_best
from datamux.evaluate.row_scores import find_metric
from datamux.tasks.labels import find_labels
from datamux.tuning.choice import choose, judge, recommendation
from datamux.tuning.settings import Settings, Wish, parse_budget

METRIC = find_metric(find_labels(["a", "b"]), tags=False)
ROWS = 1000


def point(name, wrong, ratio, group_size=1):
    drop = 100 * (wrong - 100) / ROWS
    rates = {"rate": 50 * ratio, "ratio": ratio, "lowest": ratio, "highest": ratio}
    return Point(name, "torch", group_size, 1 - wrong / ROWS, drop, folder=name, **rates)


def numbers(wrong):
    return np.stack([np.arange(ROWS) >= wrong, np.ones(ROWS)], axis=1).astype(float)


WRONG = {"reference": 100, "half": 104, "mixed": 109, "words": 180}
POINTS = mark_best(
    [point("reference", 100, 1.0), point("half", 104, 3.0), point("mixed", 109, 4.0, 5), point("words", 180, 40.0)]
)


def judged(**wish):
    return judge(POINTS, {p.name: numbers(WRONG[p.model]) for p in POINTS}, METRIC, Wish(**wish))


def chosen(**wish):
    return choose(judged(**wish), Wish(**wish))


def test_the_fastest_within_the_points():
    assert chosen().best.point.model == "mixed"
    assert chosen(max_drop=0.5).best.point.model == "half"
    assert chosen(max_drop=0).best.point.model == "reference"
    assert chosen(max_drop=10).best.point.model == "words"


def test_being_surer_costs_speed():
    found = {one.point.model: one for one in judged()}
    assert 0.5 < found["mixed"].chance < 0.8
    assert found["half"].chance > 0.95
    assert found["half"].drop_low <= 0.4 <= found["half"].drop_high
    assert chosen(sure=0.95).best.point.model == "half"


def test_a_score_or_a_speed_can_be_asked_for():
    assert chosen(min_score=80).best.point.model == "words"
    assert chosen(min_score=89.3).best.point.model == "half"
    assert chosen(min_speed=140).best.point.model == "half", "the most accurate that is fast enough"
    assert chosen(min_speed=1000).best.point.model == "words"


def test_if_nothing_is_good_enough_the_nearest_is_named():
    found = chosen(min_score=99)
    assert not found.met
    assert found.best.point.model == "reference"
    assert "the best scores 90.0" in found.why
    slow = chosen(min_speed=10_000)
    assert not slow.met
    assert slow.best.point.model == "words"
    assert "the fastest answers 2,000" in slow.why


def test_three_sentences():
    lines = recommendation(chosen(), judged(), METRIC, ROWS, Wish())
    assert lines[0].startswith("Use mixed, torch, 5 per pass: 4.0 times the throughput of reference, torch (200 texts")
    assert "loses 0.9 points of accuracy (90.0 to 89.1)" in lines[0]
    assert "in 6" in lines[1] or "in 5" in lines[1] or "in 7" in lines[1]
    assert lines[2] == "Multiplexing is on the frontier with mixed, torch, 5 per pass (4.0 times, +0.9 points)."
    without = [one for one in judged() if one.point.group_size == 1]
    assert recommendation(chosen(), without, METRIC, ROWS, Wish())[2].startswith("No multiplexed model")


@pytest.mark.parametrize(
    ("text", "seconds"), [("45m", 2700), ("1h30m", 5400), ("90", 90), ("2.5h", 9000), ("20 s", 20)]
)
def test_a_budget_is_a_time(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5x", "-3m", "3s", "1h and a bit"])
def test_a_bad_budget_is_named(text):
    with pytest.raises(ValueError, match="budget must be"):
        parse_budget(text)


def test_bad_wishes_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"--max-drop and --min-speed cannot be combined"):
        Wish(max_drop=1, min_speed=5)
    for wish in ({"max_drop": -1}, {"min_score": 0}, {"min_speed": 0}, {"sure": 1}):
        with pytest.raises(ValueError, match=f"--{next(iter(wish)).replace('_', '-')} must be"):
            Wish(**wish)
    with pytest.raises(ValueError, match="give your rows with --train FILE"):
        Settings(out=tmp_path)
