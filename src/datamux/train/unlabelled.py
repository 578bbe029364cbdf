"""Texts without labels, for a student to learn from: the teacher's answers become their labels.

They follow the labelled rows, with a placeholder as their label until the teacher has answered. This file knows
examples and rows. It does not know how a teacher is asked.
"""

import logging
from dataclasses import replace
from pathlib import Path

import torch

from datamux.tasks.examples import Examples, joined
from datamux.tasks.labels import Labels
from datamux.tasks.rows import IGNORED, Rows
from datamux.tasks.task import Task, load_unlabelled
from datamux.train.recipe import TaskSettings

logger = logging.getLogger(__name__)
SHOWN = 5  # how many labels the log line shows


def check_unlabelled(settings: TaskSettings) -> None:
    """Raise if there are texts without labels but no teacher to label them."""
    if settings.unlabelled and not settings.distill_logits:
        raise ValueError(
            f"nobody can label {settings.unlabelled}: task.unlabelled needs a teacher and task.distill_logits above 0"
        )


def with_unlabelled(labelled: Examples, settings: TaskSettings, task: Task, labels: Labels) -> Examples:
    """The labelled rows, followed by the rows of the unlabelled file, if the recipe names one."""
    if not settings.unlabelled:
        return labelled
    more = load_unlabelled(task, Path(settings.unlabelled))
    placeholder: object = {"regression": 0.0, "multi_label_classification": []}.get(labels.problem, labels.names[0])
    given = [[placeholder] * len(text) if task.kind == "token" else placeholder for text in more.texts]
    return joined([labelled, replace(more, labels=given)])


def label_by_teacher(rows: Rows, first: int, labels: Labels) -> None:
    """Label the rows from number `first` on with the teacher's answers."""
    if first >= len(rows):
        return
    assert rows.teacher_logits is not None
    if rows.token_labels is not None:
        start = int(rows.starts[first])
        has_label = rows.token_labels[start:] != IGNORED
        tags = rows.teacher_logits[start:].argmax(-1).to(rows.token_labels.dtype)
        rows.token_labels[start:] = tags.where(has_label, IGNORED)
        return
    assert rows.labels is not None
    logits = rows.teacher_logits[first:]
    if labels.problem == "regression":
        rows.labels[first:] = logits[:, 0]
    elif labels.problem == "multi_label_classification":
        rows.labels[first:] = (logits > 0).to(rows.labels.dtype)
    else:
        rows.labels[first:] = logits.argmax(-1)
        counts = torch.bincount(rows.labels[first:], minlength=len(labels.names)).tolist()
        found = sorted(zip(counts, labels.names, strict=True), reverse=True)[:SHOWN]
        shares = ", ".join(f"{count / len(logits):.0%} {name}" for count, name in found)
        logger.info("the teacher labelled %s texts: %s%s", f"{len(logits):,}", shares, ", ..." * (len(counts) > SHOWN))
