"""Texts that nobody labelled, for a student to learn from: its teacher's answers are their labels.

They stand behind the labelled rows with a label that means nothing until the teacher was asked.
Knows examples and rows. Does not know how a teacher is asked.
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
SHOWN = 5  # labels whose share is told


def check_unlabelled(settings: TaskSettings) -> None:
    """There must be a teacher who says what its answers are."""
    if settings.unlabelled and not settings.distill_logits:
        raise ValueError(
            f"nobody can label {settings.unlabelled}: task.unlabelled wants a teacher and task.distill_logits above 0"
        )


def with_unlabelled(labelled: Examples, settings: TaskSettings, task: Task, labels: Labels) -> Examples:
    """The labelled rows, and behind them those of the file that the recipe names, if it names one."""
    if not settings.unlabelled:
        return labelled
    more = load_unlabelled(task, Path(settings.unlabelled))
    nothing: object = {"regression": 0.0, "multi_label_classification": []}.get(labels.problem, labels.names[0])
    given = [[nothing] * len(text) if task.kind == "token" else nothing for text in more.texts]
    return joined([labelled, replace(more, labels=given)])


def label_by_teacher(rows: Rows, first: int, labels: Labels) -> None:
    """Give the rows from `first` on the labels that their teacher's logits stand for."""
    if first >= len(rows):
        return
    assert rows.teacher_logits is not None
    if rows.token_labels is not None:
        start = int(rows.starts[first])
        asked = rows.token_labels[start:] != IGNORED
        said = rows.teacher_logits[start:].argmax(-1).to(rows.token_labels.dtype)
        rows.token_labels[start:] = said.where(asked, IGNORED)
        return
    assert rows.labels is not None
    said = rows.teacher_logits[first:]
    if labels.problem == "regression":
        rows.labels[first:] = said[:, 0]
    elif labels.problem == "multi_label_classification":
        rows.labels[first:] = (said > 0).to(rows.labels.dtype)
    else:
        rows.labels[first:] = said.argmax(-1)
        counts = torch.bincount(rows.labels[first:], minlength=len(labels.names)).tolist()
        found = sorted(zip(counts, labels.names, strict=True), reverse=True)[:SHOWN]
        shares = ", ".join(f"{count / len(said):.0%} {name}" for count, name in found)
        logger.info("the teacher labelled %s texts: %s%s", f"{len(said):,}", shares, ", ..." * (len(counts) > SHOWN))
