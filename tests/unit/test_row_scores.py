"""What every row adds to a score: the sums give the usual metrics, and two models are compared on the same samples."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, r2_score

from datamux.evaluate.row_scores import bootstrap, find_metric, interval, score_of
from datamux.tasks.examples import Examples
from datamux.tasks.labels import find_labels, find_tags


def said(names):
    return [{"label": name, "score": 1.0} for name in names]


def test_accuracy_and_macro_f1():
    truth, given = ["a", "a", "b", "c", "a"], ["a", "b", "b", "a", "a"]
    examples = Examples(["text"] * 5, labels=truth)
    labels = find_labels(truth)
    accuracy = find_metric(labels, tags=False)
    assert score_of(accuracy, accuracy.of_rows(said(given), examples, labels)) == pytest.approx(3 / 5)
    macro = find_metric(labels, tags=False, asked="macro-f1")
    expected = f1_score(truth, given, average="macro", zero_division=0.0)
    assert score_of(macro, macro.of_rows(said(given), examples, labels)) == pytest.approx(expected)


def test_numbers_are_compared_by_explained_variance():
    truth = [0.5, 1.25, 3.0, 2.0]
    given = [0.75, 1.0, 2.5, 2.0]
    labels = find_labels(truth)
    metric = find_metric(labels, tags=False)
    answers = [{"label": "score", "score": value} for value in given]
    rows = metric.of_rows(answers, Examples(["text"] * 4, labels=truth), labels)
    assert score_of(metric, rows) == pytest.approx(r2_score(truth, given))


def test_several_labels_per_text():
    truth = [["a", "b"], [], ["b"]]
    labels = find_labels(truth)
    metric = find_metric(labels, tags=False)
    rows = metric.of_rows([said("a"), said("b"), said("b")], Examples(["text"] * 3, labels=truth), labels)
    assert score_of(metric, rows) == pytest.approx(2 * 2 / (3 + 3))


def test_spans_count_as_seqeval_counts_them():
    words = [["Anna", "Smith", "in", "New", "York"], ["Rome", "Paris"]]
    tags = [["B-PER", "I-PER", "O", "B-LOC", "I-LOC"], ["B-LOC", "B-LOC"]]
    labels = find_tags(tags)
    metric = find_metric(labels, tags=True)
    person = {"entity_group": "PER", "start": 0, "end": 10}
    wrong = {"entity_group": "LOC", "start": 18, "end": 22}
    towns = [{"entity_group": "LOC", "start": 0, "end": 4}, {"entity_group": "LOC", "start": 5, "end": 10}]
    rows = metric.of_rows([[person, wrong], towns], Examples(words, labels=tags), labels)
    assert rows.tolist() == [[1, 2, 2], [2, 2, 2]]


def test_tags_without_spans_count_words():
    words, tags = [["a", "dog", "runs"], ["it"]], [["DT", "NN", "VB"], ["O"]]
    labels = find_tags(tags)
    metric = find_metric(labels, tags=True)
    answer = [{"entity_group": "DT", "start": 0, "end": 1}, {"entity_group": "VB", "start": 2, "end": 10}]
    assert metric.of_rows([answer, []], Examples(words, labels=tags), labels).tolist() == [[2, 3], [1, 1]]


def test_macro_f1_only_where_there_are_classes():
    with pytest.raises(ValueError, match="macro F1 is for one label per text"):
        find_metric(find_labels([0.5, 1.5]), tags=False, asked="macro-f1")
    with pytest.raises(ValueError, match="unknown metric 'f2'"):
        find_metric(find_labels(["a", "b"]), tags=False, asked="f2")


def test_samples_are_paired():
    """Two models that are wrong on the same rows differ by nothing in every sample, although both scores vary."""
    labels = find_labels(["a", "b"])
    metric = find_metric(labels, tags=False)
    rows = np.stack([np.arange(100) % 4 > 0, np.ones(100)], axis=1).astype(float)
    one, other = bootstrap(metric, rows, rows.copy(), samples=300)
    assert len(one) == 300
    assert one.std() > 0.02
    assert (one == other).all()
    low, high = interval(one)
    assert low < 0.75 < high
