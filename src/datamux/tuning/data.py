"""The user's rows in three parts: to learn from, to decide when to stop, and to choose with. No row is in two of them.

Rows with the same text are in the same part. The first two are written as files, because training reads files. Rows
that choose a model are never trained on, and never decide when a training stops. The rows of every part are shuffled,
because a file may be sorted by label. Every decision that the user should know about becomes a note.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from datamux.tasks.examples import Examples
from datamux.tasks.files import BadFile
from datamux.tasks.holding_out import hold_out, shuffled, text_key, text_keys
from datamux.tasks.labels import Labels
from datamux.tasks.task import (
    NoSuchSplit,
    Task,
    find_labels_of,
    get_task,
    load_split,
    load_unlabelled,
    task_from_files,
)
from datamux.tuning.settings import Settings

CHOICE_SHARE, MOST_CHOICE = 0.15, 3000  # of the rows, held out to choose with; more would take long to answer
STOP_SHARE, MOST_STOP = 0.1, 1000  # of the rest, to decide when a training stops
LEAST_ROWS = 20
ROWS = "rows"  # the folder of the written parts, below that of the search
SECRET = "-1"  # the label of every row of a test split whose labels are not published


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
    rows = _with_names(rows, labels)
    _check_labels(rows, labels, task.kind == "token", notes)
    rows = _sampled(rows, settings.max_rows, settings.seed, notes)
    choice = _given(task, "validation", settings, labels, notes)
    test = _given(task, "test", settings, labels, notes)
    validated = choice is not None
    if choice is None:
        rows, choice = hold_out(rows, CHOICE_SHARE, MOST_CHOICE, settings.seed, labels)
        notes.append(f"{len(choice):,} of the rows were held out to choose with, and none of them was trained on")
    else:
        _warn_of_copies(rows, choice, "training", "validation", notes)
        if len(choice) > MOST_CHOICE:
            notes.append(f"a sample of {MOST_CHOICE:,} validation rows chooses")
        choice = shuffled(choice, settings.seed).first(MOST_CHOICE)
    if test is not None:
        _warn_of_copies(rows, test, "training", "test", notes)
        _warn_of_copies(choice, test, "validation" if validated else "held-out", "test", notes)
    learn, stop = hold_out(rows, STOP_SHARE, MOST_STOP, settings.seed + 1, labels)
    if settings.unlabelled is not None:
        parts = {"that choose": choice, "to test with": test, "that stop the trainings": stop}
        _warn_of_known_texts(load_unlabelled(task, settings.unlabelled), parts, notes)
    if len(choice) == 0:
        different = len(text_keys(rows))
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
            "train": _write(learn, task, folder / "train.jsonl"),
            "validation": _write(stop, task, folder / "stop.jsonl"),
        },
    )
    return Data(written, Labels(labels.names, labels.problem), learn, choice, test, notes)


def sampled_to_teach(data: Data, unlabelled: str, rows: int, seed: int, folder: Path) -> tuple[Data, str]:
    """As many texts as the reference has time to answer: random rows, and if all of them fit, unlabelled texts too."""
    train = shuffled(data.train, seed).first(rows)
    file = _write(train, data.task, folder / "taught.jsonl")
    task = replace(data.task, files=dict(data.task.files) | {"train": file})
    more = ""
    if unlabelled and rows > len(train):
        texts = shuffled(load_unlabelled(data.task, Path(unlabelled)), seed).first(rows - len(train))
        more = str(_write(texts, data.task, folder / "taught-unlabelled.jsonl"))
    return replace(data, train=train, task=task), more


def _task(settings: Settings) -> Task:
    if settings.train is None:
        task = get_task(settings.task or "")
        if task.kind == "text":
            raise ValueError(f"{task.name} is a corpus without labels: give a task with labels (see datamux ls tasks)")
        return task
    given = {"train": settings.train, "validation": settings.validation, "test": settings.test}
    files = {split: file for split, file in given.items() if file is not None}
    return task_from_files(files, settings.text, settings.label, token_level=settings.token_level or None)


def _given(task: Task, split: str, settings: Settings, labels: Labels, notes: list[str]) -> Examples | None:
    """The rows of a split that the user has; None if there is no such split, or its labels were kept secret."""
    try:
        rows = load_split(task, split, settings.data_dir)
    except NoSuchSplit:
        return None
    if (
        labels.problem != "regression"
        and SECRET not in labels.names
        and {str(x) for x in rows.labels or ()} == {SECRET}
    ):
        notes.append(
            f"the {split} rows were left out: all their labels are {SECRET}, which stands for an unknown label"
        )
        return None
    return _with_names(rows, labels)


def _with_names(rows: Examples, labels: Labels) -> Examples:
    """The rows with their labels by name, whether the file has names or numbers. A wrong label is reported."""
    found = rows.encoded_labels(labels)
    names = labels.names
    if isinstance(rows.texts[0], list):
        found = [[names[tag] for tag in tags] for tags in found]
    elif labels.problem == "multi_label_classification":
        found = [[name for name, yes in zip(names, several, strict=True) if yes] for several in found]
    elif labels.problem == "single_label_classification":
        found = [names[number] for number in found]
    return replace(rows, labels=found)


def _check_labels(rows: Examples, labels: Labels, tags: bool, notes: list[str]) -> None:
    if labels.problem == "regression":
        return
    if labels.problem == "single_label_classification" and len(labels.names) < 2:
        problem = f"all rows have the label {labels.names[0]!r}; there is nothing to learn"
        raise BadFile(rows.source, problem, column=rows.label_column)
    if tags or labels.problem != "single_label_classification":
        return
    counts = Counter(rows.labels or ())
    rare = [name for name, count in counts.items() if count == 1]
    if rare:
        shown = ", ".join(rare[:5]) + (", ..." if len(rare) > 5 else "")
        notes.append(f"{len(rare)} labels have only one row ({shown}): it is used to learn from, so nothing checks it")


def _sampled(rows: Examples, most: int, seed: int, notes: list[str]) -> Examples:
    if len(rows) <= most:
        return rows
    notes.append(f"{most:,} of the {len(rows):,} rows were drawn at random for the search (--max-rows)")
    return shuffled(rows, seed).first(most)


def _warn_of_copies(known: Examples, rows: Examples, known_as: str, name: str, notes: list[str]) -> None:
    texts = text_keys(known)
    copies = sum(text_key(rows, row) in texts for row in range(len(rows)))
    if copies:
        notes.append(
            f"warning: {copies:,} of the {len(rows):,} {name} rows have texts that are also in the {known_as} rows, so "
            "scores on them flatter every model: remove them from one of the files"
        )


def _warn_of_known_texts(unlabelled: Examples, parts: Mapping[str, Examples | None], notes: list[str]) -> None:
    texts = text_keys(unlabelled)
    for name, rows in parts.items():
        copies = 0 if rows is None else sum(text_key(rows, row) in texts for row in range(len(rows)))
        if rows is not None and copies:
            notes.append(
                f"warning: {copies:,} of the {len(rows):,} rows {name} have texts that are also in the unlabelled "
                "file, so every model learns the reference's answers to them: remove them from that file"
            )


def _write(rows: Examples, task: Task, file: Path) -> Path:
    """Rows as JSON lines, with the names of their labels, if they have some."""
    lines = []
    for row in range(len(rows)):
        texts = [rows.texts[row], *([] if rows.pairs is None else [rows.pairs[row]])]
        cells = dict(zip(task.text, texts, strict=True)) | ({task.label: rows.labels[row]} if rows.labels else {})
        lines.append(json.dumps(cells, ensure_ascii=False))
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    part.replace(file)
    return file
