"""The models in the package: they answer, they fit, and their cards are true."""

import pytest

import datamux
from datamux.evaluate.report import evaluate_model
from datamux.zoo import HOME, shipped_models

NAMES = ["ner", "ner-plain", "sentiment", "sentiment-plain"]
CARDS = shipped_models()


def test_all_four_ship_and_fit_into_the_package():
    assert sorted(CARDS) == NAMES
    assert sum(file.stat().st_size for file in HOME.rglob("*") if file.is_file()) < 48e6


@pytest.mark.parametrize("name", NAMES)
def test_a_card_says_what_a_user_must_know(name):
    card, page = CARDS[name], (HOME / name / "README.md").read_text()
    assert set(card["scores"]) == ({"1"} if name.endswith("plain") else {"1", "2", "5", "10", "20"})
    for score in card["scores"].values():
        assert f"{100 * score:.1f}" in page
    assert card["limits"] in page
    assert "experiments/zoo.sh" in page
    assert (HOME / name / "recipe.json").exists()


@pytest.mark.parametrize("name", ["sentiment", "sentiment-plain"])
def test_sentiment(name):
    predictor = datamux.load(name)
    texts = ["a wonderful, moving film", "a dull and stupid mess"] * 10
    assert [answer["label"] for answer in predictor(texts)] == ["positive", "negative"] * 10


@pytest.mark.parametrize("name", ["ner", "ner-plain"])
def test_names(name):
    answers = datamux.load(name)(["Peter Brown was born in Germany ."] * 20)
    found = [{(span["entity_group"], span["word"].split()[0]) for span in spans} for spans in answers]
    right = [spans == {("PER", "Peter"), ("LOC", "Germany")} for spans in found]
    assert sum(right) >= 18, "in nearly every slot, not only in the first"


@pytest.mark.data
@pytest.mark.parametrize("name", NAMES)
def test_the_score_of_the_card_is_found_again(name):
    card = CARDS[name]
    n = card["num_instances"]
    found = evaluate_model(name, card["task"], splits=card["splits"], group_sizes=[n], groupings=1)
    assert found["results"][0]["score"] == pytest.approx(card["scores"][str(n)], abs=0.01)
