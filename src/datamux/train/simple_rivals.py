"""What a user would have tried first, and how well it does: `datamux train` prints it beside its own score.

These are the majority class, TF-IDF with a linear model, and a linear model on the sentence vectors of a pretrained
encoder. Each takes seconds.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from datamux.errors import reason
from datamux.hub.loading import load_encoder, load_tokenizer
from datamux.tasks.examples import Examples
from datamux.tasks.labels import Labels

MOST_ROWS = 20_000  # a linear model learns from at most this many rows: more take long and change little
BATCH_TOKENS = 4096
WORD = r"(?u)\b\w+\b|[?!]"  # what TF-IDF counts
Score = Callable[[Any, Any, Labels], dict[str, float]]
Tell = Callable[[str], None]
Way = Callable[[Examples], Any]  # from texts to vectors
TFIDF, VECTORS = "TF-IDF with a linear model", "sentence vectors with a linear model"


@dataclass(frozen=True)
class Rival:
    """A simple way to answer, and its score on the held-out rows."""

    name: str
    score: float


@dataclass(frozen=True)
class FittedRival:
    """A simple way to answer that has seen the training rows: `logits` answers rows, (i c), or (i l c) for tags."""

    name: str
    logits: Callable[[Examples], Any]


def simple_rivals(
    train: Examples, held_out: Examples, labels: Labels, score: Score, *, encoder: str = "", left_out: Tell
) -> list[Rival]:
    """The scores of simple ways on `held_out`. `encoder` names a pretrained encoder, if there is one."""
    truth = _truth(held_out, labels)
    fitted = fit_rivals(train, labels, encoder=encoder, left_out=left_out)
    return [Rival(rival.name, score(rival.logits(held_out), truth, labels)["score"]) for rival in fitted]


def fit_rivals(
    train: Examples, labels: Labels, *, encoder: str = "", most_rows: int = MOST_ROWS, left_out: Tell
) -> list[FittedRival]:
    """Simple ways to answer, fitted to the training rows. `encoder` names a pretrained encoder, if there is one.

    TF-IDF sees at most `most_rows` rows; an encoder, which is slower, sees at most `MOST_ROWS`. A way that fails is
    missing in the result, and `left_out` is told why: what was trained beside it must not be lost.
    """
    if isinstance(train.texts[0], list):
        return [_most_frequent_tags(train, labels)]
    some = _sample(train, most_rows)
    known = np.asarray(some.encoded_labels(labels))
    found = [FittedRival(_constant_name(labels), lambda rows: _constant(known, len(rows), labels))]
    if labels.problem == "single_label_classification" and len(np.unique(known)) < 2:
        return found  # so few texts that one label has them all: there is nothing to separate
    ways: list[tuple[str, Callable[[], Way], Examples]] = [(TFIDF, lambda: _tfidf(_joined(some)), some)]
    if encoder:
        ways.append((VECTORS, lambda: SentenceVectors(encoder), _sample(some, MOST_ROWS)))
    for name, make, rows in ways:
        try:
            found.append(_linear_rival(name, make(), rows, labels))
        except Exception as error:
            left_out(f"{name} was left out: {reason(error)}")
    return found


def _sample(rows: Examples, most: int) -> Examples:
    """At most that many rows, drawn at random, because a file may be sorted by label."""
    return rows if len(rows) <= most else rows.only(random.Random(0).sample(range(len(rows)), most))


def _linear_rival(name: str, way: Way, some: Examples, labels: Labels) -> FittedRival:
    answers = _linear(labels).fit(way(some), np.asarray(some.encoded_labels(labels)))
    return FittedRival(name, lambda rows: _as_logits(answers, way(rows), labels))


def _truth(rows: Examples, labels: Labels) -> Any:
    """(i), or (i l) padded with -100 for tags."""
    truth = rows.encoded_labels(labels)
    if not isinstance(rows.texts[0], list):
        return np.asarray(truth)
    padded = np.full((len(truth), max(map(len, truth))), -100)
    for row, tags in enumerate(truth):
        padded[row, : len(tags)] = tags
    return padded


def _joined(examples: Examples) -> list[str]:
    if examples.pairs is None:
        return list(examples.texts)
    return [f"{text} [SEP] {pair}" for text, pair in zip(examples.texts, examples.pairs, strict=True)]


def _constant_name(labels: Labels) -> str:
    return "the mean" if labels.problem == "regression" else "the most frequent label"


def _constant(known: Any, rows: int, labels: Labels) -> Any:
    """The same answer for every row, as logits."""
    if labels.problem == "regression":
        return np.full(rows, known.mean())
    if labels.problem == "multi_label_classification":
        return np.tile(known.mean(0) - 0.5, (rows, 1))
    return np.tile(np.bincount(known, minlength=len(labels.names)), (rows, 1))


def _tfidf(seen: Sequence[str]) -> Way:
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(re.search(WORD, text) for text in seen):
        raise ValueError("there is no word in the texts that it learns from")
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=1, token_pattern=WORD)
    words.fit(seen)
    return lambda rows: words.transform(_joined(rows))


def _linear(labels: Labels) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier

    if labels.problem == "regression":
        return Ridge()
    logistic = LogisticRegression(C=10.0, max_iter=1000)
    return OneVsRestClassifier(logistic) if labels.problem == "multi_label_classification" else logistic


def _as_logits(answers: Any, rows: Any, labels: Labels) -> Any:
    """(i c), as our own models give them. A class that has no row in the training part never wins."""
    if labels.problem == "regression":
        return answers.predict(rows)
    if labels.problem == "multi_label_classification":
        return answers.decision_function(rows)
    logits = np.full((rows.shape[0], len(labels.names)), -np.inf)
    logits[:, answers.classes_] = answers.predict_log_proba(rows)
    return logits


class SentenceVectors:
    """The mean of a pretrained encoder's states over the tokens of each text, of length one: (i d)."""

    def __init__(self, encoder: str) -> None:
        self.model = load_encoder(encoder)
        self.tokenizer = load_tokenizer(encoder)

    @torch.inference_mode()
    def __call__(self, rows: Examples) -> Any:
        texts = _joined(rows)
        limit = min(self.tokenizer.model_max_length, 256)
        encoded = self.tokenizer(texts, truncation=True, max_length=limit)["input_ids"]
        vectors = np.zeros((len(texts), self.model.config.hidden_size), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda row: len(encoded[row]))
        while order:
            some = order[-max(1, BATCH_TOKENS // len(encoded[order[-1]])) :]
            order = order[: -len(some)]
            batch = self.tokenizer.pad({"input_ids": [encoded[row] for row in some]}, return_tensors="pt")
            states, mask = self.model(**batch).last_hidden_state, batch["attention_mask"].unsqueeze(-1)
            pooled = (states * mask).sum(1) / mask.sum(1)
            vectors[some] = torch.nn.functional.normalize(pooled, dim=-1).numpy()
        return vectors


def _most_frequent_tags(train: Examples, labels: Labels) -> FittedRival:
    """For a tagger. A word that was never seen gets the most frequent tag of all."""
    seen: dict[str, Counter[int]] = defaultdict(Counter)
    every: Counter[int] = Counter()
    for words, tags in zip(train.texts, train.encoded_labels(labels), strict=True):
        for word, tag in zip(words, tags, strict=True):
            seen[word][tag] += 1
            every[tag] += 1
    usual = every.most_common(1)[0][0]
    best = {word: tags.most_common(1)[0][0] for word, tags in seen.items()}

    def logits(rows: Examples) -> Any:
        found = np.zeros((len(rows), max(map(len, rows.texts)), len(labels.names)))
        for row, words in enumerate(rows.texts):
            for place, word in enumerate(words):
                found[row, place, best.get(word, usual)] = 1
        return found

    return FittedRival("each word's most frequent tag", logits)
