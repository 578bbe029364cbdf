"""What every row adds to a score, so that two models can be compared on the same rows, and an interval costs no rerun.

A metric is a function of sums over rows: accuracy needs the right answers and the rows, F1 needs three counts. So each
row keeps its numbers (i s), and the score of any selection of rows, such as a bootstrap sample, is computed from their
weighted sums. This file knows answers as the predictor gives them; it does not know models.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamux.errors import check_choice
from datamux.tasks.examples import Examples
from datamux.tasks.labels import Labels

Numbers = NDArray[np.float64]
SAMPLES = 2000  # bootstrap samples
MACRO_F1 = "macro F1"
BATCH = 100  # samples that are drawn at once, so that the counts of millions of rows fit into memory


@dataclass(frozen=True)
class Metric:
    """`name` as people know it. `score` maps sums (... s) to scores (...), of which more is better; 1 is perfect."""

    name: str
    score: Callable[[Numbers], Numbers]
    of_rows: Callable[[Sequence[Any], Examples, Labels], Numbers]  # answers -> (i s)


def find_metric(labels: Labels, *, tags: bool, asked: str = "auto") -> Metric:
    """The task's usual metric, or macro F1 (the mean over the classes) if it is `asked` for."""
    check_choice("metric", asked, ("auto", "macro-f1"))
    if asked == "macro-f1":
        if tags or labels.problem != "single_label_classification":
            raise ValueError("macro F1 is for one label per text: leave --metric out, and the usual metric is used")
        return Metric(MACRO_F1, _macro_f1, _by_class)
    if tags:
        if any(name.startswith(("B-", "I-")) for name in labels.names):
            return Metric("F1 of spans", _f1, _spans)
        return Metric("accuracy of words", _share, _words)
    if labels.problem == "regression":
        return Metric("R squared", _r_squared, _errors)
    if labels.problem == "multi_label_classification":
        return Metric("F1 of labels", _f1, _several)
    return Metric("accuracy", _share, _right)


def score_of(metric: Metric, rows: Numbers) -> float:
    return float(metric.score(rows.sum(0)))


def bootstrap(metric: Metric, *contenders: Numbers, samples: int = SAMPLES, seed: int = 0) -> list[Numbers]:
    """The scores of several contenders on the same random samples of the rows: one array of `samples` per contender."""
    chance = np.random.default_rng(seed)
    count = len(contenders[0])
    found: list[list[Numbers]] = [[] for _ in contenders]
    for start in range(0, samples, BATCH):
        draws = min(BATCH, samples - start)
        weights = chance.multinomial(count, np.full(count, 1 / count), size=draws).astype(np.float64)
        for place, rows in enumerate(contenders):
            found[place].append(np.asarray(metric.score(weights @ rows)))
    return [np.concatenate(scores) for scores in found]


def interval(values: Numbers, share: float = 0.95) -> tuple[float, float]:
    """The middle `share` of the values."""
    low, high = np.quantile(values, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def _share(sums: Numbers) -> Numbers:
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))


def _f1(sums: Numbers) -> Numbers:
    """From the counts of correct, given and true labels."""
    return np.asarray(2 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1))


def _macro_f1(sums: Numbers) -> Numbers:
    """The mean over the classes that are true or given anywhere."""
    right, given, true = np.split(sums, 3, axis=-1)
    present = (given + true) > 0
    each = 2 * right / np.maximum(given + true, 1)
    return np.asarray((each * present).sum(-1) / np.maximum(present.sum(-1), 1))


def _r_squared(sums: Numbers) -> Numbers:
    """From the squared errors, the true values, their squares, and the number of rows."""
    errors, values, squares, rows = np.moveaxis(sums, -1, 0)
    spread = squares - values**2 / np.maximum(rows, 1)
    return np.asarray(1 - errors / np.maximum(spread, 1e-12))


def _right(answers: Sequence[Any], examples: Examples, labels: Labels) -> Numbers:
    truth = examples.encoded_labels(labels)
    return np.array([[answer["label"] == labels.names[t], 1] for answer, t in zip(answers, truth, strict=True)], float)


def _by_class(answers: Sequence[Any], examples: Examples, labels: Labels) -> Numbers:
    count = len(labels.names)
    number = {name: place for place, name in enumerate(labels.names)}
    rows = np.zeros((len(answers), 3 * count))
    for row, (answer, true) in enumerate(zip(answers, examples.encoded_labels(labels), strict=True)):
        given = number[answer["label"]]
        rows[row, true] = given == true
        rows[row, count + given] = rows[row, 2 * count + true] = 1
    return rows


def _several(answers: Sequence[Any], examples: Examples, labels: Labels) -> Numbers:
    rows = []
    for answer, true in zip(answers, examples.encoded_labels(labels), strict=True):
        given = {one["label"] for one in answer}
        wanted = {name for name, yes in zip(labels.names, true, strict=True) if yes}
        rows.append([len(given & wanted), len(given), len(wanted)])
    return np.array(rows, float)


def _errors(answers: Sequence[Any], examples: Examples, labels: Labels) -> Numbers:
    truth = np.array(examples.encoded_labels(labels), float)
    given = np.array([answer["score"] for answer in answers])
    return np.stack([(given - truth) ** 2, truth, truth**2, np.ones_like(truth)], axis=1)


def _spans(answers: Sequence[Any], examples: Examples, labels: Labels) -> Numbers:
    rows = []
    for answer, words, tags in zip(answers, examples.texts, examples.encoded_labels(labels), strict=True):
        given = {(span["entity_group"], span["start"], span["end"]) for span in answer}
        wanted = set(_true_spans(words, [labels.names[tag] for tag in tags]))
        rows.append([len(given & wanted), len(given), len(wanted)])
    return np.array(rows, float)


def _words(answers: Sequence[Any], examples: Examples, labels: Labels) -> Numbers:
    """A word has the tag of the span that covers it, or "O"."""
    rows = []
    for answer, words, tags in zip(answers, examples.texts, examples.encoded_labels(labels), strict=True):
        right, start = 0, 0
        spans = iter([*answer, {"start": float("inf"), "end": float("inf"), "entity_group": "O"}])
        span = next(spans)
        for word, tag in zip(words, tags, strict=True):
            while span["end"] <= start:
                span = next(spans)
            given = span["entity_group"] if span["start"] <= start else "O"
            right += given == labels.names[tag]
            start += len(word) + 1
        rows.append([right, len(words)])
    return np.array(rows, float)


def _true_spans(words: Sequence[str], tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """(kind, start, end) of the spans that B-x and I-x tags mark, in letters of the words joined by single spaces."""
    spans: list[tuple[str, int, int]] = []
    start, open_kind = 0, ""
    for word, tag in zip(words, tags, strict=True):
        end = start + len(word)
        kind = "" if tag == "O" else tag[2:] if tag[:2] in ("B-", "I-") else tag
        if kind and kind == open_kind and not tag.startswith("B-"):
            spans[-1] = (kind, spans[-1][1], end)
        elif kind:
            spans.append((kind, start, end))
        open_kind, start = kind, end + 1
    return spans
