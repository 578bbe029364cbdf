"""Which points are best, and which is recommended."""

import pytest

from datamux.evaluate.frontier import Point, mark_best, recommend


def point(name, score, rate, drop):
    return Point(name, "torch", 1, score, drop, rate, rate / 10, rate / 10, rate / 10)


POINTS = [
    point("plain", 0.90, 10, 0.0),
    point("small", 0.88, 30, 2.0),
    point("slow and bad", 0.87, 20, 3.0),
    point("mixed", 0.895, 25, 0.5),
    point("wild", 0.70, 90, 20.0),
]


def test_the_frontier_holds_what_nothing_beats():
    assert [p.model for p in mark_best(POINTS) if p.best] == ["plain", "small", "mixed", "wild"]
    twins = mark_best([POINTS[0], POINTS[0]])
    assert all(p.best for p in twins)


def test_the_fastest_within_the_budget():
    assert recommend(POINTS, 1.0).model == "mixed"
    assert recommend(POINTS, 2.0).model == "small"
    assert recommend(POINTS, 0.0).model == "plain"
    with pytest.raises(ValueError, match="max-drop"):
        recommend(POINTS[1:], -1.0)
