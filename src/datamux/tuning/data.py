"""The user's rows in three parts: to learn from, to decide when to stop, and to choose with. No row is in two of them.

The first two are written as files, because training reads files. Rows that choose a model are never trained on, and
never decide when a training stops. Every decision that the user should know about becomes a note.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from datamux.tasks.examples import Examples
from datamux.tasks.files import BadFile
from datamux.tasks.labels import Labels
from datamux.tasks.task import NoSuchSplit, Task, find_labels_of, get_task, load_split, task_from_files
from datamux.tuning.settings import Settings

CHOICE_SHARE, MOST_CHOICE = 0.15, 3000  # of the rows, held out to choose with; more would take long to answer
STOP_SHARE, MOST_STOP = 0.1, 1000  # of the rest, to decide when a training stops
LEAST_ROWS = 20


@dataclass
class Data:
    """`task` reads the rows to learn from and those that stop a training; `choice` and `test` rows stay outside it."""

    task: Task
    labels: Labels
    train: Examples
    choice: Examples
    test: Examples | None
    notes: list[str] = field(default_factory=list)

    @property
    def tags(self) -> bool:
        return self.task.kind == "token"

    @property
    def pairs(self) -> bool:
        return self.train.pairs is not None


def prepare(settings: Settings, folder: Path) -> Data:
    """Read, check and split the user's rows; the parts to train on are written into `folder`."""
    task = _task(settings)
    rows = load_split(task, "train", settings.data_dir)
    labels = find_labels_of(task, rows)
    notes: list[str] = []
    _check_labels(rows, labels, task.kind == "token", notes)
    rows = _sampled(rows, settings.max_rows, settings.seed, notes)
    choice = _given(task, "validation", settings, labels)
    if choice is None:
        rows, choice = _held_out(rows, CHOICE_SHARE, MOST_CHOICE, settings.seed)
        choice = _without(choice, _keys(rows))
        notes.append(f"{len(choice):,} of the rows were held out to choose with, and none of them was trained on")
    elif len(choice) > MOST_CHOICE:
        choice = _shuffled(choice, settings.seed).first(MOST_CHOICE)
        notes.append(f"a sample of {MOST_CHOICE:,} validation rows chooses")
    test = _given(task, "test", settings, labels)
    for name, others in (("validation", choice), ("test", test)):
        if others is not None:
            _warn_of_copies(rows, others, name, notes)
    learn, stop = _held_out(rows, STOP_SHARE, MOST_STOP, settings.seed + 1)
    if len(choice) == 0:
        different = len(_keys(rows))
        raise BadFile(rows.source, f"has only {different} different texts, so no row is left to choose with: add more")
    if min(len(learn), len(stop)) == 0 or len(learn) + len(stop) < LEAST_ROWS:
        raise BadFile(rows.source, f"has {len(rows)} usable rows, and tuning needs at least {LEAST_ROWS} to learn from")
    written = Task(
        task.name,
        task.kind,
        task.text,
        task.label or settings.label,
        None if labels.problem == "regression" else labels.names,
        files={
            "train": _write(learn, labels, task, folder / "train.jsonl"),
            "validation": _write(stop, labels, task, folder / "stop.jsonl"),
        },
    )
    numbered = Labels(labels.names, labels.problem, numbered=task.label_names is not None)
    return Data(written, numbered, learn, choice, test, notes)


def _task(settings: Settings) -> Task:
    if settings.train is None:
        task = get_task(settings.task or "")
        if task.kind == "text":
            raise ValueError(f"{task.name} is a corpus without labels: give a task with labels (see datamux ls tasks)")
        return task
    given = {"train": settings.train, "validation": settings.validation, "test": settings.test}
    files = {split: file for split, file in given.items() if file is not None}
    return task_from_files(files, settings.text, settings.label, token_level=settings.token_level or None)


def _given(task: Task, split: str, settings: Settings, labels: Labels) -> Examples | None:
    """The rows of a split that the user has, with labels that are known; None if there is no such split."""
    try:
        rows = load_split(task, split, settings.data_dir)
    except NoSuchSplit:
        return None
    if rows.labels is not None:
        rows.encoded_labels(labels)  # a wrong label is reported before anything is trained
    return rows


def _check_labels(rows: Examples, labels: Labels, tags: bool, notes: list[str]) -> None:
    if labels.problem == "regression":
        return
    if labels.problem == "single_label_classification" and len(labels.names) < 2:
        problem = f"all rows have the label {labels.names[0]!r}; there is nothing to learn"
        raise BadFile(rows.source, problem, column=rows.label_column)
    if tags or labels.problem != "single_label_classification":
        return
    counts = Counter(labels.names[number] for number in rows.encoded_labels(labels))
    rare = [name for name, count in counts.items() if count == 1]
    if rare:
        shown = ", ".join(rare[:5]) + (", ..." if len(rare) > 5 else "")
        notes.append(f"{len(rare)} labels have only one row ({shown}): it is used to learn from, so nothing checks it")


def _sampled(rows: Examples, most: int, seed: int, notes: list[str]) -> Examples:
    if len(rows) <= most:
        return rows
    notes.append(f"{most:,} of the {len(rows):,} rows were drawn at random for the search (--max-rows)")
    return _shuffled(rows, seed).first(most)


def _shuffled(rows: Examples, seed: int) -> Examples:
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    return rows.only(order)


def _held_out(rows: Examples, share: float, most: int, seed: int) -> tuple[Examples, Examples]:
    """(the rows that remain, those that are held out): the same share of every label, but never its only row."""
    chance = random.Random(seed)
    by_label: dict[str, list[int]] = defaultdict(list)
    share = min(share, most / len(rows))
    labels: Sequence[Any] = rows.labels or ()
    one_per_row = labels and not isinstance(labels[0], list | float)
    for row in range(len(rows)):
        by_label[str(labels[row]) if one_per_row else ""].append(row)
    held: set[int] = set()
    for members in by_label.values():
        chance.shuffle(members)
        held.update(members[: min(len(members) - 1, int(share * len(members) + chance.random()))])
    return rows.only([r for r in range(len(rows)) if r not in held]), rows.only(sorted(held))


def _keys(rows: Examples) -> set[str]:
    return {_key(rows, row) for row in range(len(rows))}


def _key(rows: Examples, row: int) -> str:
    text = rows.texts[row]
    words = " ".join(text) if isinstance(text, list) else text
    return words if rows.pairs is None else f"{words}\0{rows.pairs[row]}"


def _without(rows: Examples, keys: set[str]) -> Examples:
    return rows.only([row for row in range(len(rows)) if _key(rows, row) not in keys])


def _warn_of_copies(rows: Examples, others: Examples, name: str, notes: list[str]) -> None:
    known = _keys(rows)
    copies = sum(_key(others, row) in known for row in range(len(others)))
    if copies:
        notes.append(
            f"warning: {copies:,} of the {len(others):,} {name} rows have texts that are also in the training rows, so "
            f"scores on them flatter every model: remove them from one of the files"
        )


def _write(rows: Examples, labels: Labels, task: Task, file: Path) -> Path:
    """Rows as JSON lines, with the names of their labels."""
    assert rows.labels is not None
    lines = []
    for row in range(len(rows)):
        texts = [rows.texts[row], *([] if rows.pairs is None else [rows.pairs[row]])]
        label = _named(rows.labels[row], labels, tags=task.kind == "token")
        lines.append(json.dumps(dict(zip(task.text, texts, strict=True)) | {task.label: label}, ensure_ascii=False))
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    part.replace(file)
    return file


def _named(value: Any, labels: Labels, *, tags: bool) -> Any:
    if labels.problem == "regression":
        return labels.encode(value)
    if tags:
        return [_name(one, labels) for one in value]
    if labels.problem == "multi_label_classification":
        return [_name(one, labels) for one in value]
    return _name(value, labels)


def _name(value: Any, labels: Labels) -> str:
    """The name of one label, whether the file has its name or its number."""
    single = replace(labels, problem="single_label_classification")
    number = single.encode(value)
    assert isinstance(number, int)
    return labels.names[number]
