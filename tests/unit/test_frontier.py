"""Which points are best, and which is recommended."""

from dataclasses import asdict, replace

import pytest

from datamux.evaluate.frontier import Point, mark_best, packaged_models, recommend, recommendation, training_of
from datamux.reproduce.figures.frontiers import frontier_table
from datamux.zoo import HOME


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


def test_a_machine_that_slows_down_decides_nothing():
    late = [replace(p, rate=1.0) if p.model == "mixed" else p for p in POINTS]
    assert [p.model for p in mark_best(late) if p.best] == [p.model for p in mark_best(POINTS) if p.best]
    assert recommend(late, 1.0).model == "mixed"


def test_the_recommendation_is_one_line():
    found = recommendation(POINTS, 1.0)
    assert (found["name"], found["ratio"], found["drop"]) == ("mixed, torch", 2.5, 0.5)
    assert found["line"] == "Within 1 points of plain, torch: use mixed, torch (2.5 times as fast, 0.50 points lost)."


def test_a_setting_that_loses_nothing_says_so():
    better = [POINTS[0], replace(POINTS[0], model="better", drop=-0.07, ratio=2.0)]
    assert "use better, torch (2.0 times as fast, no points lost)" in recommendation(better, 1.0)["line"]


def test_models_in_the_package_are_the_default():
    assert packaged_models("sst2") == ["sentiment-plain", "sentiment"]
    assert packaged_models("conll2003") == ["ner-plain", "ner"]
    with pytest.raises(ValueError, match=r"mnli.*--model"):
        packaged_models("mnli")


def test_how_a_model_was_trained(tmp_path):
    assert training_of(HOME / "sentiment") == {"steps": 5000, "learning_rate": 0.0005}
    assert training_of(tmp_path) == {"steps": None, "learning_rate": None}
    (tmp_path / "training.json").write_text('[{"stage": "warmup", "steps": 9}, {"stage": "task", "steps": 7}]')
    assert training_of(tmp_path)["steps"] == 7, "it may have stopped early"


def test_the_table_has_flips_where_a_record_has_them():
    """Older records lack them, and their tables stay as they are."""
    rows = [asdict(replace(point(name, 0.9, 10, 0.0), group_size=k)) for name, k in (("plain", 1), ("mixed", 5))]
    new = {"results": [rows[0], rows[1] | {"flips": 0.0213}]}
    titles, _, plain, mixed = frontier_table(new)
    assert titles.startswith("| | score | answers that flip | points lost |")
    assert plain.startswith("| plain | 90.0 |  | 0.0 |")
    assert mixed.startswith("| mixed, 5 per pass | 90.0 | 2.1% | 0.0 |")
    old = {"results": [{key: value for key, value in row.items() if key != "flips"} for row in rows]}
    assert "flip" not in "".join(frontier_table(old))
