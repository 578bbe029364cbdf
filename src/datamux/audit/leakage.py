"""Leakage: what does the answer for one text tell about the text in the next slot?

A linear probe learns, from groups of one half of the rows, to name the neighbour's label and to say which of some
frequent words the neighbour contains. It is scored on groups of the other half. It reads either what slot 0's head
reads, or only slot 0's logits, which is all that a client sees. Reading slot 1 itself shows what a perfect leak gives.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from datamux.audit.probe import area_under_curve, probe_scores
from datamux.audit.subject import Subject

WORDS = 20  # words whose presence is asked for


@dataclass(frozen=True)
class Side:
    """Groups of one half of the rows: what the probe may read, by name, and what it should find out about slot 1."""

    readings: dict[str, Tensor]
    labels: Tensor
    contains: Tensor


def leakage(subject: Subject, k: int, *, groups: int = 1500, seed: int = 0) -> dict[str, Any]:
    """Probe slot 0 for the text in slot 1, in groups of k >= 2."""
    generator = torch.Generator().manual_seed(seed)
    halves = torch.randperm(len(subject.rows), generator=generator).chunk(2)
    words = frequent_words(subject)
    learn, check = (_side(subject, half, k, groups, words, generator) for half in halves)
    classes = int(max(learn.labels.max(), check.labels.max())) + 1
    one_hot = torch.nn.functional.one_hot(learn.labels, classes).float()
    chance = float((check.labels == int(one_hot.sum(0).argmax())).float().mean())
    neighbours = min(groups, len(halves[1]))  # groups share rows, so that more of them are no more evidence
    error = (chance * (1 - chance) / neighbours) ** 0.5
    result: dict[str, Any] = {"part": "leakage", "group_size": k, "groups": groups, "rows": len(subject.rows)}
    result |= {"chance": chance, "error": error}
    for name, reading in learn.readings.items():
        said = probe_scores(reading, one_hot, check.readings[name]).argmax(-1)
        result[f"label_from_{name}"] = float((said == check.labels).float().mean())
        scores = probe_scores(reading, learn.contains, check.readings[name])
        areas = [area_under_curve(*pair) for pair in zip(scores.T, check.contains.T, strict=True)]
        known = [area for area in areas if area is not None]
        result[f"words_from_{name}"] = sum(known) / len(known) if known else None
    return result


def _side(subject: Subject, half: Tensor, k: int, groups: int, words: list[int], generator: torch.Generator) -> Side:
    some = torch.stack([half[torch.randperm(len(half), generator=generator)[:k]] for _ in range(groups)])
    states, answers = subject.represent(some)
    neighbours = some[:, 1].tolist()
    contains = [[word in _pieces(subject, row) for word in words] for row in neighbours]
    return Side(
        {"state": states[:, 0], "logits": answers[:, 0], "own_state": states[:, 1], "own_logits": answers[:, 1]},
        torch.tensor([_label(subject, row) for row in neighbours]),
        torch.tensor(contains).float().view(groups, len(words)),
    )


def _label(subject: Subject, row: int) -> int:
    """The class of a text; for a tagger, whether it has anything but the most frequent tag."""
    truth = subject.truth[row]
    if not subject.tags:
        return int(truth[0])
    outside = subject.labels.names.index("O") if "O" in subject.labels.names else 0
    return int(bool((truth != outside).any()))


def frequent_words(subject: Subject) -> list[int]:
    """The word pieces that are nearest to being in one text of ten, without those that nearly every text has."""
    rows = len(subject.rows)
    counts = Counter(piece for row in range(rows) for piece in _pieces(subject, row))
    fitting = [(abs(seen / rows - 0.1), piece) for piece, seen in counts.items() if 0.01 <= seen / rows <= 0.5]
    return [piece for _, piece in sorted(fitting)[:WORDS]]


def _pieces(subject: Subject, row: int) -> set[int]:
    rows = subject.rows
    return set(rows.ids[int(rows.starts[row]) : int(rows.ends[row])].tolist())
