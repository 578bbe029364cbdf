"""Logits to labels and spans, against answers worked out by hand and against the Hugging Face pipeline."""

import pytest
import torch

from datamux.inference.answers import Word, label_answers, span_answers

NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-creative-work"]


def spans(tags):
    words = [Word(3 * i, 3 * i + 2, i + 1) for i in range(len(tags))]
    logits = torch.full((len(tags) + 2, len(NAMES)), -9.0)
    for i, tag in enumerate(tags):
        logits[i + 1, NAMES.index(tag)] = 9.0
    text = " ".join(["ab"] * len(tags))
    (found,) = span_answers([text], [words], logits[None], NAMES)
    return [(s["entity_group"], s["start"], s["end"], s["word"]) for s in found]


def test_spans():
    assert spans(["O", "O"]) == []
    assert spans(["B-PER", "I-PER", "O", "B-LOC"]) == [("PER", 0, 5, "ab ab"), ("LOC", 9, 11, "ab")]
    assert spans(["B-PER", "B-PER"]) == [("PER", 0, 2, "ab"), ("PER", 3, 5, "ab")]
    assert spans(["I-LOC", "I-PER", "I-PER"]) == [("LOC", 0, 2, "ab"), ("PER", 3, 8, "ab ab")]
    two = [("creative-work", 0, 2, "ab"), ("creative-work", 3, 5, "ab")]
    assert spans(["B-creative-work", "B-creative-work"]) == two
    assert span_answers([""], [[]], torch.zeros(1, 2, 6), NAMES) == [[]]


def test_labels():
    logits = torch.tensor([[0.0, 2.0, 1.0], [5.0, -5.0, 0.0]])
    names = ["a", "b", "c"]
    one = label_answers(logits, names, "single_label_classification")
    assert [answer["label"] for answer in one] == ["b", "a"]
    assert one[0]["score"] == pytest.approx(float(logits[0].softmax(-1)[1]))
    two = label_answers(logits, names, "single_label_classification", top_k=2)
    assert [[answer["label"] for answer in row] for row in two] == [["b", "c"], ["a", "c"]]
    several = label_answers(logits, names, "multi_label_classification")
    assert [[answer["label"] for answer in row] for row in several] == [["b", "c"], ["a"]]
    (value, _) = label_answers(logits[:, :1], ["stars"], "regression")
    assert value == {"label": "stars", "score": 0.0}
