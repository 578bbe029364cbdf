"""The demo's figures on a zoo of untrained toys: whose answers are shown, and what stands beside them."""

import json

import pytest

import datamux
from conftest import tiny_encoder
from datamux import zoo
from datamux.evaluate import demo

NAMES = ("toy", "toy-plain")


@pytest.fixture
def toys(tmp_path, monkeypatch, tokenizer):
    for name, n in zip(NAMES, (3, 1), strict=True):
        datamux.multiplex(tiny_encoder(), n).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        scores = {"1": 0.5, "3": 0.25} if n > 1 else {"1": 0.75}
        card = {"what": "a toy", "metric": "accuracy", "num_instances": n, "scores": scores}
        (tmp_path / name / "card.json").write_text(json.dumps(card))
    monkeypatch.setattr(zoo, "HOME", tmp_path)
    monkeypatch.setitem(demo.SENTENCES, "toy", ("good film", "bad film", "the plot", "anna"))


def test_own_texts_are_answered_in_the_company_of_ours(toys):
    shown = demo.show_model("toy", ["very good", "not bad"], seconds=0.01, rounds=2)
    assert shown.texts == ["very good", "not bad"]
    assert shown.mixed == datamux.load("toy")(["very good", "not bad", "good film"])[:2]
    assert shown.plain == datamux.load("toy-plain")(["very good", "not bad"])
    assert shown.group_size == 3


def test_without_texts_ours_are_answered(toys):
    shown = demo.show_model("toy", [], seconds=0.01, rounds=1)
    assert shown.texts == list(demo.SENTENCES["toy"])


def test_speeds_stand_beside_the_scores_of_the_cards(toys):
    speeds = demo.show_model("toy", [], seconds=0.01, rounds=2).speeds
    assert [(row["group_size"], row["score"]) for row in speeds] == [(1, 0.75), (3, 0.25)]
    assert speeds[0]["ratio"] == 1
    assert len(speeds[1]["rates"]) == 2


def test_equal_answers_are_counted_without_their_scores():
    good, bad = {"label": "good", "score": 0.9}, {"label": "bad", "score": 0.9}
    shown = demo.Shown("toy", "accuracy", 3, ["a", "b"], [good, bad], [{"label": "good", "score": 0.6}, good], [])
    assert shown.equal == 0.5
    spans = [{"word": "Paris", "entity_group": "LOC", "score": 0.9}]
    assert demo.Shown("toy", "f1", 3, ["a", "b"], [spans, []], [[spans[0] | {"score": 0.1}], []], []).equal == 1


def test_it_is_drawn(toys, tmp_path):
    shown = demo.show_model("toy", [], seconds=0.01, rounds=1)
    demo.draw_demo([shown, shown], tmp_path / "demo.png")
    assert (tmp_path / "demo.png").stat().st_size > 10_000
