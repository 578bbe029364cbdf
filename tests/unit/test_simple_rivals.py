"""Simple ways to answer: they learn what is easy, and score what they should."""

import pytest
from transformers import BertConfig, BertModel

from datamux.evaluate.quality import score
from datamux.tasks.examples import Examples
from datamux.tasks.labels import find_labels, find_tags
from datamux.train.build import train_tokenizer
from datamux.train.simple_rivals import fit_rivals, simple_rivals

WORDS = {"good": "yes", "fine": "yes", "great": "yes", "bad": "no", "poor": "no"}


def tiny(vocab_size, hidden):
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 40}
    return BertConfig(vocab_size=vocab_size, hidden_size=hidden, **sizes)


def reviews(rows):
    texts = [f"the film number {row} was {list(WORDS)[row % 5]}" for row in range(rows)]
    return Examples(texts, labels=[WORDS[text.split()[-1]] for text in texts])


def scores(found):
    return {rival.name: rival.score for rival in found}


def test_a_class_for_each_text():
    train, held_out = reviews(100), reviews(50)
    found = scores(simple_rivals(train, held_out, find_labels(train.labels), score, left_out=pytest.fail))
    assert found == {"the most frequent label": 0.6, "TF-IDF with a linear model": 1.0}


def test_sentence_vectors_of_an_encoder(tmp_path):
    train, held_out = reviews(60), reviews(40)
    tokenizer = train_tokenizer(train.texts, 200, lowercase=True)
    BertModel(tiny(len(tokenizer), 24)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    found = scores(
        simple_rivals(train, held_out, find_labels(train.labels), score, encoder=str(tmp_path), left_out=pytest.fail)
    )
    assert found["sentence vectors with a linear model"] > 0.6


def test_numbers_are_compared_by_squared_error():
    texts = [f"{'so ' * (row % 4)}long" for row in range(80)]
    train = Examples(texts, labels=[row % 4 + 0.5 for row in range(80)])
    found = scores(simple_rivals(train, train, find_labels(train.labels), score, left_out=pytest.fail))
    assert found["the mean"] == pytest.approx(-1.25)
    assert found["the mean"] < found["TF-IDF with a linear model"] <= 0


def test_several_labels_at_once():
    texts = ["red green", "red", "green", "blue red"] * 20
    train = Examples(texts, labels=[text.split() for text in texts])
    found = scores(simple_rivals(train, train, find_labels(train.labels), score, left_out=pytest.fail))
    assert found["TF-IDF with a linear model"] == 1.0
    assert found["the most frequent label"] < 0.8


def test_tags_by_the_word():
    train = Examples(
        [["Anna", "saw", "Paris"], ["Paris", "met", "Anna", "again"]],
        labels=[["B-PER", "O", "B-LOC"], ["B-LOC", "O", "B-PER", "O"]],
    )
    unseen = Examples([["Anna", "met", "Bob"]], labels=[["B-PER", "O", "B-PER"]])
    found = simple_rivals(train, unseen, find_tags(train.labels), score, left_out=pytest.fail)
    assert found[0].name == "each word's most frequent tag"
    assert found[0].score == pytest.approx(2 / 3), "two of two names are asked for, one is found"


def test_a_file_that_is_sorted_by_label_is_sampled():
    train = reviews(100)
    ordered = train.only(sorted(range(100), key=lambda row: train.labels[row]))
    found = fit_rivals(ordered, find_labels(train.labels), most_rows=40, left_out=pytest.fail)
    assert [rival.name for rival in found] == ["the most frequent label", "TF-IDF with a linear model"]
    assert (found[1].logits(train).argmax(1) == train.encoded_labels(find_labels(train.labels))).mean() > 0.95


def test_what_cannot_be_fitted_is_left_out_with_a_sentence_and_the_rest_goes_on(tmp_path):
    train = Examples(["🙂", "🙃🙃", "🙁"] * 20, labels=["yes", "yes", "no"] * 20)
    tokenizer = train_tokenizer(train.texts, 200, lowercase=True)
    BertModel(tiny(len(tokenizer), 24)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    said = []
    found = scores(
        simple_rivals(train, train, find_labels(train.labels), score, encoder=str(tmp_path), left_out=said.append)
    )
    assert found.keys() == {"the most frequent label", "sentence vectors with a linear model"}
    assert said == ["TF-IDF with a linear model was left out: there is no word in the texts that it learns from"]
    said.clear()
    rivals = fit_rivals(
        reviews(30), find_labels(list(WORDS.values())), encoder=str(tmp_path / "gone"), left_out=said.append
    )
    assert [rival.name for rival in rivals] == ["the most frequent label", "TF-IDF with a linear model"]
    assert said[0].startswith("sentence vectors with a linear model was left out: ")
