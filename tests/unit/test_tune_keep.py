"""What a search leaves: the folder of the best model, and its gears."""

import json
from argparse import Namespace
from dataclasses import replace

import pytest

from datamux.evaluate.frontier import mark_best
from datamux.serve.settings import Settings as ServeSettings
from datamux.serve.tuned import tuned_gears
from datamux.tuning.choice import Choice, choose, judge
from datamux.tuning.finals import Finals, _with_single_texts
from datamux.tuning.keep import _gears, left_out_alone, write_best
from datamux.tuning.run import _warn_of_single_texts
from datamux.tuning.settings import Wish
from tuning import METRIC, numbers, point

WRONG = {"whole": 100, "half": 104, "mixed": 108, "words": 180}  # of 1,000 rows


def four(folder, wish, single=108):
    """Four models on the frontier, the most accurate first, as judged by a wish.

    The mixed one has `single` rows wrong when it answers one text at a time.
    """
    points = []
    for (name, wrong), ratio in zip(WRONG.items(), (1.0, 3.0, 4.0, 40.0), strict=True):
        points.append(point(name, wrong, ratio, 5 if name == "mixed" else 1))
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.json").write_text(json.dumps({"name": name}))
        (place / "model.safetensors").write_text(name)
    rows = {one.name: numbers(WRONG[one.model]) for one in points}
    rows |= {"mixed, torch": numbers(single)} if single is not None else {}
    return judge([replace(one, folder=str(folder / one.model)) for one in mark_best(points)], rows, METRIC, wish)


def names(gears):
    return [one.point.model for one in gears]


def test_gears_are_what_is_good_enough_from_the_most_accurate_to_the_fastest(tmp_path):
    judged = four(tmp_path, Wish(max_drop=1))
    assert names(_gears(choose(judged, Wish(max_drop=1)), judged[::-1], Wish(max_drop=1))) == ["whole", "half", "mixed"]


@pytest.mark.parametrize(
    ("wish", "best"), [(Wish(min_score=99), "whole"), (Wish(min_speed=140), "half"), (Wish(min_speed=9999), "words")]
)
def test_for_a_speed_or_if_nothing_is_good_enough_only_the_best_is_kept(tmp_path, wish, best):
    judged = four(tmp_path, wish)
    assert names(_gears(choose(judged, wish), judged, wish)) == [best]


def test_what_is_not_on_the_frontier_is_no_gear(tmp_path):
    judged = four(tmp_path, Wish(max_drop=50))
    judged[1] = replace(judged[1], point=replace(judged[1].point, best=False))
    assert names(_gears(choose(judged, Wish()), judged, Wish())) == ["whole", "mixed", "words"]


def test_the_gears_of_a_folder(tmp_path):
    """Each has its own model, and a server finds them again."""
    wish, out = Wish(max_drop=1), tmp_path / "best"
    judged, out = four(tmp_path / "models", wish), tmp_path / "best"
    out.mkdir()
    card = {"what": "a model", "task": "reviews", "scores": {"1": 0.9, "2": 0.895}}
    written = write_best(out, choose(judged, wish), judged, tmp_path / "exported", card, wish, ["review"])
    assert [gear["folder"] for gear in written] == ["gears/0-torch-1", "gears/1-torch-1", "."]
    for gear, name in zip(written, ("whole", "half", "mixed"), strict=True):
        assert json.loads((out / gear["folder"] / "config.json").read_text())["name"] == name
        assert (out / gear["folder"] / "model.safetensors").read_text() == name
    gears = tuned_gears(out, ServeSettings())
    assert [gear.group_size for gear in gears] == [1, 1, 5]
    assert [gear.score for gear in gears] == sorted((gear.score for gear in gears), reverse=True)
    assert [gear.pace * gear.group_size for gear in gears] == pytest.approx([1.0, 3.0, 4.0])
    found = json.loads((out / "card.json").read_text())
    assert found["scores"] == {"1": 0.9, "2": 0.895, "5": 0.892}
    stricter = Wish(max_drop=0.5)
    judged = four(tmp_path / "models", stricter)
    again = write_best(out, choose(judged, stricter), judged, tmp_path / "exported", card, stricter)
    assert [gear["folder"] for gear in again] == ["gears/0-torch-1", "."]
    assert not (out / "gears" / "1-torch-1").exists(), "the gears of before are gone"


def test_a_mixed_finalist_is_scored_at_single_texts_too():
    """Its folder answers a text that comes alone at group size 1."""
    assert _with_single_texts({"name": "mixed", "sizes": [2, 5, 10]})["sizes"] == [1, 2, 5, 10]
    assert _with_single_texts({"name": "cut", "sizes": [1]})["sizes"] == [1]
    about = {"model": "mixed", "engine": "torch"}
    measured = {str(size): about | {"group_size": size, "score": 0.9 - size / 100} for size in (10, 1, 2)}
    measured["other"] = {"model": "mixed", "engine": "int8", "group_size": 5, "score": 0.1}
    state = Namespace(data={"measured": measured})
    finals = Finals(**dict.fromkeys(Finals.__dataclass_fields__) | {"state": state})
    found = finals.scores_of(point("mixed", 100, 1.0, 2))
    assert list(found) == ["1", "2", "10"]
    assert found["1"] == pytest.approx(0.89)


@pytest.mark.parametrize(
    ("single", "wish", "kept"),
    [
        (112, Wish(max_drop=1), False),
        (109, Wish(max_drop=1), True),
        (109, Wish(max_drop=1, sure=0.99), False),
        (112, Wish(min_score=89), False),
        (None, Wish(max_drop=1), False),
    ],
)
def test_a_mixed_gear_is_good_enough_for_a_text_that_is_left_over(tmp_path, single, wish, kept):
    """A server answers such a text by itself. The wish must hold as surely as for full groups, or it is no gear."""
    wider = replace(wish, max_drop=20.0) if wish.min_score is None else Wish(min_score=70)
    chosen = choose(four(tmp_path, wider), wider)
    assert chosen.best.point.model == "words"
    judged = four(tmp_path, wish, single)
    mixed = next(one for one in judged if one.point.model == "mixed")
    judged = [replace(one, meets=True) for one in judged]  # so that single texts alone decide
    assert ("mixed" in names(_gears(chosen, judged, wish))) is kept
    assert names(left_out_alone(chosen, judged, wish)) == ["mixed"] * (not kept)
    assert mixed.alone == (None if single is None else pytest.approx(1 - single / 1000))
    assert all(one.meets_alone for one in judged if one.point.group_size == 1), "a plain model has no other size"
    notes = []
    state = Namespace(note=lambda text, tell: notes.append(text))
    _warn_of_single_texts(chosen, judged, wish, state, print)
    assert len(notes) == (not kept)
    assert all(note.startswith("mixed, torch, 5 per pass is no gear of a server, because it ") for note in notes)


@pytest.mark.parametrize(
    ("single", "wish", "said"),
    [(115, Wish(), True), (105, Wish(), False), (115, Wish(min_score=80), False), (500, Wish(min_speed=9), False)],
)
def test_a_chosen_model_that_is_worse_alone_stays_and_is_named(tmp_path, single, wish, said):
    judged = four(tmp_path, wish, single)
    choice = Choice(next(one for one in judged if one.point.model == "mixed"), True)
    notes = []
    state = Namespace(note=lambda text, tell: notes.append(text))
    _warn_of_single_texts(choice, judged, wish, state, print)
    assert [f"scores {100 - single / 10:.1f} on texts" in note for note in notes] == [True] * said
    assert "mixed" in names(_gears(choice, judged, wish))
