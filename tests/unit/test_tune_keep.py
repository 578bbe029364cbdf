"""What a search leaves: the folder of the best model, and its gears."""

import json
from argparse import Namespace
from dataclasses import replace

import pytest

from datamux.evaluate.frontier import mark_best
from datamux.serve.settings import Settings as ServeSettings
from datamux.serve.tuned import tuned_gears
from datamux.tuning.choice import choose, judge
from datamux.tuning.finals import Finals, _with_single_texts
from datamux.tuning.keep import _gears, write_best
from datamux.tuning.run import _warn_of_single_texts
from datamux.tuning.settings import Wish
from tuning import METRIC, numbers, point

WRONG = {"whole": 100, "half": 104, "mixed": 108, "words": 180}  # of 1,000 rows


def four(folder, wish):
    """Four models on the frontier, the most accurate first, as judged by a wish."""
    points = []
    for (name, wrong), ratio in zip(WRONG.items(), (1.0, 3.0, 4.0, 40.0), strict=True):
        points.append(point(name, wrong, ratio, 5 if name == "mixed" else 1))
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.json").write_text(json.dumps({"name": name}))
        (place / "model.safetensors").write_text(name)
    rows = {one.name: numbers(WRONG[one.model]) for one in points}
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
    ("single", "wish", "said"),
    [
        (0.885, Wish(), True),
        (0.895, Wish(), False),
        (0.885, Wish(min_score=80), False),
        (0.5, Wish(min_speed=9), False),
    ],
)
def test_a_mixed_model_that_is_worse_alone_is_named(single, wish, said):
    notes = []
    state = Namespace(note=lambda text, tell: notes.append(text))
    _warn_of_single_texts({"1": single, "5": 0.9}, 0.9, wish, state, print)
    assert bool(notes) is said
    _warn_of_single_texts({"1": 0.1}, 0.9, wish, state, print)
    assert bool(notes) is said, "a plain model has no other size"
