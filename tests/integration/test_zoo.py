"""The models in the package: they answer, they fit, and their cards are true."""

import pytest
import torch
from pages.cards import as_markdown, make_card

import datamux
from conftest import random_rows, tiny_encoder
from datamux.evaluate.evaluate_model import evaluate_model
from datamux.hub.loading import load_model
from datamux.reproduce.packing import slim
from datamux.zoo import HOME, shipped_encoders, shipped_models
from datamux.zoo.sentences import NEWS

NAMES = ["ner", "ner-plain", "sentiment", "sentiment-plain"]
CARDS = shipped_models()


def test_all_ship():
    assert sorted(CARDS) == NAMES
    assert sorted(shipped_encoders()) == ["encoder"]


@pytest.mark.parametrize("task", ["sequence-classification", "token-classification"])
def test_what_packing_leaves_out_changes_no_bit_of_an_answer(task):
    model = datamux.multiplex(tiny_encoder(), 3, task=task, retrieval_head=True).eval()
    packed = slim(model, 7)
    assert packed.retrieval is None
    assert packed.backbone.max_tokens == 7
    rows = random_rows(5, tokens=7)
    with torch.inference_mode():
        for k in (1, 2, 3):
            assert torch.equal(packed(**rows, group_size=k).logits, model(**rows, group_size=k).logits)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_model_has_only_what_it_uses_and_cuts_long_texts(name):
    model, limit = load_model(name), CARDS[name]["max_tokens"]
    assert model.retrieval is None
    assert model.backbone.max_tokens == limit
    assert sum(weight.numel() for weight in model.parameters()) == CARDS[name]["parameters"]
    predictor = datamux.load(name)
    long, longer = "film " * (limit - 2), "film " * 500
    assert predictor([longer])[0] == predictor([long])[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_card_says_what_a_user_must_know(name):
    card, page = CARDS[name], (HOME / name / "README.md").read_text()
    assert set(card["scores"]) == {str(k) for k in (1, 2, 5, 10, 20) if k <= card["num_instances"]}
    for score in card["scores"].values():
        assert f"{100 * score:.1f}" in page
    assert card["limits"] in page
    assert "`datamux reproduce packaged-models --data-dir DATA --encoder minilm`" in page
    teacher = "the `encoder` in the package," if name == "ner" else "all-MiniLM-L6-v2"
    assert f"The teacher: {teacher} fine-tuned" in page
    assert (HOME / name / "recipe.json").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_what_its_records_say(name):
    card = CARDS[name]
    assert make_card(name, card["parameters"]) == card
    assert as_markdown(name, card) == (HOME / name / "README.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_card_says_how_it_was_measured_and_made(name):
    card, page = CARDS[name], (HOME / name / "README.md").read_text()
    assert card["speed"].keys() == card["scores"].keys()
    for speed in card["speed"].values():
        assert f"| {speed['texts_per_second']:,.0f} |" in page
    assert f"{card['hardware']['cores']} cores of an {card['hardware']['cpu']}" in page
    groupings = card["groupings"][str(card["num_instances"])]
    assert (f"mean over {groupings} random groupings" in page) == (card["num_instances"] > 1)
    assert f"once, in {'bf16' if card['bf16'] else 'fp32'}, commit" in page
    assert f"One seed ({card['training']['seed']})" in page
    for part in card["training"]["stages"]:
        assert f"{part['minutes']:.0f} minutes" in page
        assert part["commit"][:7] in page
    assert ("Reuters" in page) == name.startswith("ner")


@pytest.mark.parametrize("name", ["sentiment", "sentiment-plain"])
def test_sentiment(name):
    predictor = datamux.load(name)
    predictor.merges_copies = False  # all twenty slots in use
    texts = ["a wonderful, moving film", "a dull and stupid mess"] * 10
    assert [answer["label"] for answer in predictor(texts)] == ["positive", "negative"] * 10


@pytest.mark.parametrize("name", ["ner", "ner-plain"])
def test_names_are_found_in_every_slot_among_other_texts(name):
    text, others, predictor = "Peter Brown was born in Germany .", list(NEWS[:19]), datamux.load(name)
    for slot in range(20):
        spans = predictor([*others[:slot], text, *others[slot:]])[slot]
        found = {(span["entity_group"], span["word"].split()[0]) for span in spans}
        assert found == {("PER", "Peter"), ("LOC", "Germany")}, f"in slot {slot}"


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("name", ["ner", "ner-plain"])
def test_names(name, merged):
    predictor = datamux.load(name)
    predictor.merges_copies = merged
    answers = predictor(["Peter Brown was born in Germany ."] * 20)
    found = [{(span["entity_group"], span["word"].split()[0]) for span in spans} for spans in answers]
    right = [spans == {("PER", "Peter"), ("LOC", "Germany")} for spans in found]
    assert sum(right) >= 18, "in nearly every slot, not only in the first"


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["sentiment", *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES if name != "sentiment")]
)
def test_the_score_of_the_card_is_found_again(name):
    card = CARDS[name]
    n = card["num_instances"]
    groupings = card["groupings"][str(n)]  # one grouping alone is up to a point from the mean over all
    found = evaluate_model(name, card["task"], splits=card["splits"], group_sizes=[n], groupings=groupings)
    assert found["results"][0]["score"] == pytest.approx(card["scores"][str(n)], abs=0.01)
