"""Position and control: is any slot worse than the others, and does an answer come from its own part of the mixture?"""

from collections import Counter
from statistics import fmean, pstdev
from typing import Any

import torch

from datamux.audit.subject import Subject
from datamux.evaluate.neighbour_control import answered_from_neighbour
from datamux.evaluate.quality import Quality, measure_quality


def position(subject: Subject, k: int, *, groupings: int = 3, seed: int = 0) -> dict[str, Any]:
    """The accuracy of every slot, in random groups. `expected` is the spread that equal slots would show by chance."""
    generator = torch.Generator().manual_seed(seed)
    right: list[list[float]] = [[] for _ in range(k)]
    for _ in range(groupings):
        order = torch.randperm(len(subject.rows), generator=generator)
        groups = order[: len(order) // k * k].view(-1, k)
        for answers, rows in zip(subject.ask_all(groups), groups.tolist(), strict=True):
            for slot, (p, row) in enumerate(zip(answers, rows, strict=True)):
                right[slot] += (p.argmax(-1) == subject.truth[row]).float().tolist()
    slots = [fmean(answers) for answers in right]
    share, answers_per_slot = fmean(slots), fmean(map(len, right))
    return {
        "part": "position",
        "group_size": k,
        "slots": slots,
        "accuracy": share,
        "worst": min(slots),
        "best": max(slots),
        "spread": pstdev(slots),
        "expected": (share * (1 - share) / answers_per_slot) ** 0.5,
    }


def mixture_read(subject: Subject, k: int) -> dict[str, Any]:
    """The score as it is, and with each row's answer taken from its neighbour's part of the mixture."""
    usual = _quality(subject, k, 1)
    with answered_from_neighbour(subject.runtime):
        control = _quality(subject, k, 1)
    classes = Counter(label for truth in subject.truth for label in truth.tolist())
    guessing = 0.0 if usual.metric == "f1" else max(classes.values()) / sum(classes.values())
    about = {"part": "mixture read", "group_size": k, "metric": usual.metric}
    return about | {"score": usual.score, "from_neighbour": control.score, "guessing": guessing}


def _quality(subject: Subject, k: int, groupings: int) -> Quality:
    (found,) = measure_quality(subject.runtime, subject.rows, subject.labels, group_sizes=[k], groupings=groupings)
    return found
