"""A task says where its rows are and what its columns mean. `TASKS` has the paper's tasks and a few more.

Rows come from a folder of files (`DATAMUX_DATA` or `data_dir`, holding `<task>/<split>.jsonl`, csv, tsv or parquet) or,
without such a folder, from the Hugging Face Hub by the usual name. Both give the same columns.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from datamux.errors import check_choice, import_extra
from datamux.tasks.columns import read_labels, read_tags, read_texts, read_words
from datamux.tasks.examples import Examples, joined
from datamux.tasks.files import TEXT_SUFFIXES, BadFile, Row, check_columns, read_lines, read_table, table_suffixes
from datamux.tasks.labels import Labels, find_labels, find_tags

Kind = Literal["sequence", "token", "text"]
_GLUE = "nyu-mll/glue"
_NLI = ("entailment", "neutral", "contradiction")
_MATCHED = {"validation": "validation_matched", "test": "test_matched"}
_BIO = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC")


class NoSuchSplit(FileNotFoundError):
    """The data have no such split. Data that could not be loaded raise another error."""


@dataclass(frozen=True)
class Task:
    """`text`: one column, or two for pairs; for kind "token" the column of words, with `label` the column of tags."""

    name: str
    kind: Kind
    text: tuple[str, ...]
    label: str | None = None
    label_names: tuple[str, ...] | None = None
    hub: tuple[str, ...] = ()
    hub_splits: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("sst2", "sequence", ("sentence",), "label", ("negative", "positive"), (_GLUE, "sst2")),
        Task("qqp", "sequence", ("question1", "question2"), "label", ("different", "duplicate"), (_GLUE, "qqp")),
        Task("mnli", "sequence", ("premise", "hypothesis"), "label", _NLI, (_GLUE, "mnli"), _MATCHED),
        Task("qnli", "sequence", ("question", "sentence"), "label", ("entailment", "not_entailment"), (_GLUE, "qnli")),
        Task("snli", "sequence", ("premise", "hypothesis"), "label", _NLI, ("snli",)),
        Task("banking77", "sequence", ("text",), "label", None, ("PolyAI/banking77",)),
        Task("conll2003", "token", ("tokens",), "ner_tags", _BIO, ("eriktks/conll2003",)),
        Task("wnut17", "token", ("tokens",), "ner_tags", None, ("leondz/wnut_17",)),
        Task("wikitext-103", "text", ("text",), hub=("Salesforce/wikitext", "wikitext-103-raw-v1")),
        Task("wikipedia_en", "text", ("text",), hub=("wikimedia/wikipedia", "20231101.en")),
    )
}


def get_task(name: str) -> Task:
    check_choice("task", name, TASKS)
    return TASKS[name]


def task_from_files(
    files: Mapping[str, Path], text: Sequence[str], label: str | None, *, token_level: bool | None = None
) -> Task:
    """A task from the user's own files. Without `token_level`, a column of lists of words makes it a tagging task.

    In csv and tsv words and tags are separated by white space; say `token_level=True` there.
    """
    if not 1 <= len(text) <= 2:
        raise ValueError(f"a text is one column, a pair two; got {len(text)}: {', '.join(text)}")
    if token_level is None:
        first = next(iter(files.values()))
        rows = read_table(first)
        check_columns(first, rows[:1], [*text, *([label] if label else [])])
        token_level = isinstance(rows[0][text[0]], list)
    if token_level and len(text) > 1:
        raise ValueError(f"tagging takes one column of words, got {len(text)}: {', '.join(text)}")
    kind: Kind = "text" if label is None else "token" if token_level else "sequence"
    return Task(next(iter(files.values())).stem, kind, tuple(text), label, files=dict(files))


def corpus_task(name: str) -> Task:
    """A corpus by its name, any text file, or a task, whose texts it then is."""
    if name.endswith(TEXT_SUFFIXES) or Path(name).is_file():
        return Task(Path(name).name.split(".")[0], "text", ("text",), files={"train": Path(name)})
    return get_task(name)


def load_split(task: Task, split: str, data_dir: str | Path | None = None) -> Examples:
    """The examples of one split. Raises `NoSuchSplit` if there is no such split."""
    file = find_file(task, split, data_dir)
    if task.kind == "text":
        return Examples(list(read_corpus(task, split, data_dir)))
    rows = read_table(file) if file is not None else _from_hub(task, split)
    return _examples(task, rows, file or Path(f"{'/'.join(task.hub)} ({split})"))


def load_splits(task: Task, splits: Sequence[str], data_dir: str | Path | None = None) -> Examples:
    """The examples of several splits, joined."""
    return joined([load_split(task, split, data_dir) for split in splits])


def load_unlabelled(task: Task, file: Path) -> Examples:
    """Texts from a file with the task's text columns and no labels, or one text per line."""
    if file.name.endswith(TEXT_SUFFIXES):
        if len(task.text) > 1:
            raise BadFile(file, f"a line is one text, and {task.name} has pairs: give a table with {task.text}")
        rows: list[Row] = [{task.text[0]: line} for line in read_lines(file)]
    else:
        rows = read_table(file)
    check_columns(file, rows, list(task.text))
    if task.kind == "token":
        return Examples(read_words(rows, task.text[0], file), source=file)
    texts, *pairs = (read_texts(rows, column, file) for column in task.text)
    return Examples(texts, pairs[0] if pairs else None, source=file)


def read_corpus(corpus: Task, split: str, data_dir: str | Path | None = None) -> Iterator[str]:
    """The lines of one split of a corpus, read as they are needed; or the texts of any task."""
    if corpus.kind == "text":
        file = find_file(corpus, split, data_dir)
        if file is not None:
            return read_lines(file)
        rows = _load_from_hub(corpus, split, streaming=True)  # all of Wikipedia would not fit
        return (row["text"] for row in rows if row["text"].strip())
    examples = load_split(corpus, split, data_dir)
    texts = (" ".join(map(str, text)) if isinstance(text, list) else text for text in examples.texts)
    return chain(texts, examples.pairs or ())


def find_labels_of(task: Task, train: Examples) -> Labels:
    """The labels of a task, from its fixed names or from its training rows."""
    assert train.labels is not None
    if task.kind == "token":
        return find_tags(train.labels, task.label_names)
    return find_labels(train.labels, task.label_names)


def find_file(task: Task, split: str, data_dir: str | Path | None = None) -> Path | None:
    """The local file of a split; None if the split must come from the Hub."""
    if task.files:
        if split not in task.files:
            raise NoSuchSplit(f"no {split} file was given; there are: {', '.join(task.files)}")
        return Path(task.files[split])
    folder = data_dir or os.environ.get("DATAMUX_DATA")
    if folder is None:
        return None
    base = Path(folder) / task.name
    suffixes = TEXT_SUFFIXES if task.kind == "text" else table_suffixes()
    for suffix in suffixes:
        if (base / f"{split}{suffix}").exists():
            return base / f"{split}{suffix}"
    raise NoSuchSplit(f"no {split} split of {task.name} in {base}; looked for {split}{{{','.join(suffixes)}}}")


def _examples(task: Task, rows: list[Row], source: Path) -> Examples:
    check_columns(source, rows, [*task.text, *([task.label] if task.label else [])])
    if task.kind == "token":
        assert task.label is not None
        words = read_words(rows, task.text[0], source)
        tags = read_tags(rows, task.label, source, words)
        return Examples(words, labels=tags, source=source, label_column=task.label)
    labels = read_labels(rows, task.label, source) if task.label else None
    texts, *pairs = (read_texts(rows, column, source) for column in task.text)
    return Examples(texts, pairs[0] if pairs else None, labels, source, task.label)


def _from_hub(task: Task, split: str) -> list[Row]:
    """All rows of a split on the Hub, with the names of their labels where we do not know them."""
    data = _load_from_hub(task, split)
    rows: list[Row] = list(data)
    if task.label is None:
        return rows
    from datasets import ClassLabel, Sequence

    feature = data.features.get(task.label)
    if isinstance(feature, Sequence) and isinstance(feature.feature, ClassLabel):
        names = feature.feature.names
        rows = [row | {task.label: [names[tag] for tag in row[task.label]]} for row in rows]
    elif isinstance(feature, ClassLabel) and task.label_names is None:
        rows = [row | {task.label: feature.names[row[task.label]]} for row in rows]
    return rows


def _load_from_hub(task: Task, split: str, **options: Any) -> Any:
    load_dataset = import_extra("datasets", "loading from the Hub needs", "train").load_dataset
    if not task.hub:
        raise NoSuchSplit(f"no {split} split of {task.name}")
    file = f"{task.name}/{split}{(TEXT_SUFFIXES if task.kind == 'text' else table_suffixes())[0]}"
    hub_split = task.hub_splits.get(split, split)
    try:
        try:
            return load_dataset(*task.hub, split=hub_split, **options)
        except RuntimeError:  # a loading script, which datasets no longer runs; the Hub keeps a converted copy
            return load_dataset(*task.hub, split=hub_split, revision="refs/convert/parquet", **options)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        if str(error).startswith(("Unknown split", "Bad split")):  # "Bad split" if it is streamed
            raise NoSuchSplit(f"no {split} split of {task.name} on the Hub ({'/'.join(task.hub)})") from error
        raise FileNotFoundError(
            f"the {split} split of {task.name} could not be loaded from the Hub ({'/'.join(task.hub)}); put its files "
            f"in a folder and set DATAMUX_DATA or --data-dir: <folder>/{file}"
        ) from error
