"""Scores through the predictor that a user will call, and throughput from texts to answers, side by side.

The parts are those of `datamux frontier`: the same work, the same interleaved rounds, the same points.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch

from datamux.evaluate.frontier import Point
from datamux.evaluate.row_scores import Metric, Numbers, score_of
from datamux.evaluate.timing import Contender as Timed
from datamux.evaluate.timing import compare_speed
from datamux.evaluate.workloads import FromTexts, inputs_of
from datamux.inference.answers import Word, label_answers, span_answers
from datamux.inference.predictor import Predictor
from datamux.tasks.examples import Examples
from datamux.tasks.labels import Labels
from datamux.train.simple_rivals import FittedRival

RIVAL = "scikit-learn"  # the engine of the rivals
GROUPINGS = 3  # in how many orders mixed texts are answered, so that no text has lucky neighbours
WARM = 64  # rows that are answered before the clock starts
SHORT = 256  # rows of the first look at an engine's speed, per text of a pass


@dataclass(frozen=True)
class Scored:
    """The numbers of every row (i s), the score they give, and how many texts per second were answered on the way."""

    rows: Numbers
    score: float
    rate: float


def score_predictor(
    predictor: Predictor,
    examples: Examples,
    labels: Labels,
    metric: Metric,
    group_size: int,
    *,
    groupings: int = GROUPINGS,
) -> Scored:
    """Answer all rows as a user would, and compare with their labels. Mixed texts are answered in several orders.

    Scores that are compared need the same number of `groupings`: of scores from one, the best had lucky neighbours.
    """
    texts = inputs_of(examples)
    rows: list[Numbers] = []
    list(predictor.stream(texts[:WARM], group_size=group_size))
    before = time.perf_counter()
    for number in range(groupings if group_size > 1 else 1):
        order = np.random.default_rng(number).permutation(len(texts)) if number else np.arange(len(texts))
        answers: list[Any] = [None] * len(texts)
        found = predictor.stream([texts[row] for row in order], group_size=group_size)
        for row, answer in zip(order.tolist(), found, strict=True):
            answers[row] = answer
        rows.append(metric.of_rows(answers, examples, labels))
    seconds = time.perf_counter() - before
    mean = np.mean(rows, axis=0)
    return Scored(mean, score_of(metric, mean), len(rows) * len(texts) / seconds)


def quick_rate(predictor: Predictor, texts: Sequence[Any], group_size: int) -> float:
    """A first look at the throughput, from a moment of work: the better of two, of as many passes at every size."""
    work, rows = FromTexts(predictor, texts, group_size), SHORT * group_size
    work(rows, 2048)
    times = []
    for _ in range(2):
        before = time.perf_counter()
        work(rows, 2048)
        times.append(time.perf_counter() - before)
    return rows / min(times)


def timed_predictor(name: str, predictor: Predictor, examples: Examples, group_size: int) -> Timed:
    texts = inputs_of(examples)
    lengths = predictor.texts.window(texts[:1000]).lengths
    return Timed(name, FromTexts(predictor, texts, group_size), group_size, fmean(lengths))


def timed_rival(rival: FittedRival, examples: Examples) -> Timed:
    return Timed(rival.name, RivalWork(rival, examples))


class RivalWork:
    """Lets a rival answer the same texts again and again. It chooses its own batches."""

    def __init__(self, rival: FittedRival, examples: Examples) -> None:
        self.rival, self.examples, self.place = rival, examples, 0

    def __call__(self, instances: int, positions: int) -> None:
        count = len(self.examples)
        rows = [(self.place + row) % count for row in range(instances)]
        self.place = (self.place + instances) % count
        self.rival.logits(self.examples.only(rows))


def time_all(
    timed: Sequence[Timed], *, rounds: int, seconds: float, tell: Callable[[str], None]
) -> Mapping[str, dict[str, Any]]:
    """Name -> rate, ratio to the first one, and the best batch size; all of them interleaved in one run."""
    found = compare_speed(timed, rounds=rounds, seconds=seconds, tell=tell)
    return {speed.name: speed.as_dict() for speed in found}


def point_of(about: Mapping[str, Any], speed: Mapping[str, Any], reference_score: float) -> Point:
    """A point of the frontier, as `datamux frontier` has them."""
    measured = {name: speed[name] for name in ("rate", "ratio", "lowest", "highest", "positions", "rates")}
    named = {name: about[name] for name in ("model", "engine", "group_size", "score", "folder")}
    return Point(**named, **measured, drop=100 * (reference_score - about["score"]))


def rival_answers(rival: FittedRival, examples: Examples, labels: Labels) -> list[Any]:
    """A rival's answers in the form in which the predictor gives its own."""
    logits = torch.as_tensor(np.asarray(rival.logits(examples)), dtype=torch.float32)
    if logits.dim() < 3:
        return label_answers(logits.view(len(examples), -1), labels.names, labels.problem)
    words = []
    for row in examples.texts:
        ends = np.cumsum([len(word) + 1 for word in row]) - 1
        words.append(
            [Word(int(end) - len(word), int(end), i) for i, (word, end) in enumerate(zip(row, ends, strict=True))]
        )
    return span_answers([" ".join(row) for row in examples.texts], words, logits, labels.names)
