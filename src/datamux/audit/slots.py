"""Position and control: is any slot worse than the others, and does an answer come from its own part of the mixture?"""

from collections import Counter
from statistics import fmean, pstdev
from typing import Any

import torch

from datamux.audit.subject import Subject
from datamux.evaluate.neighbour_control import answered_from_neighbour
from datamux.evaluate.quality import Quality, measure_quality


def position(subject: Subject, k: int, *, groupings: int = 3, seed: int = 0) -> dict[str, Any]:
    """The accuracy of every slot, in random groups. `expected` is the spread that equal slots would show by chance.

    Chance draws whole texts: the words of one text are right or wrong together.
    """
    generator = torch.Generator().manual_seed(seed)
    seen: list[list[tuple[int, int]]] = [[] for _ in range(k)]  # of every text in the slot, the right words and all
    for _ in range(groupings):
        order = torch.randperm(len(subject.rows), generator=generator)
        groups = order[: len(order) // k * k].view(-1, k)
        for answers, rows in zip(subject.ask_all(groups), groups.tolist(), strict=True):
            for slot, (p, row) in enumerate(zip(answers, rows, strict=True)):
                seen[slot].append((int((p.argmax(-1) == subject.truth[row]).sum()), len(subject.truth[row])))
    counts = [torch.tensor(texts, dtype=torch.float64).unbind(1) for texts in seen]
    slots = [float(right.sum() / words.sum()) for right, words in counts]
    share = fmean(slots)
    variances = [float((right - share * words).square().sum() / words.sum() ** 2) for right, words in counts]
    return {
        "part": "position",
        "group_size": k,
        "slots": slots,
        "accuracy": share,
        "worst": min(slots),
        "best": max(slots),
        "spread": pstdev(slots),
        "expected": fmean(variances) ** 0.5,
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
