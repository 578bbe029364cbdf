"""The texts of a run: its tokenizer, corpus and held-out rows. Slow work is done once and kept in the run's folder."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path

import torch
from accelerate import PartialState
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from datamux.hub.loading import load_tokenizer
from datamux.tasks.examples import Examples
from datamux.tasks.files import BadFile
from datamux.tasks.labels import Labels
from datamux.tasks.rows import encode_corpus
from datamux.tasks.task import NoSuchSplit, Task, corpus_task, find_labels_of, load_split, read_corpus
from datamux.train.build import train_tokenizer
from datamux.train.recipe import Recipe

logger = logging.getLogger(__name__)


def first_process_first() -> AbstractContextManager[None]:
    """Under torchrun, one process does what follows, and the others then find it done in the (shared) folder."""
    context: AbstractContextManager[None] = PartialState(cpu=not torch.cuda.is_available()).main_process_first()
    return context


def find_tokenizer(recipe: Recipe, folder: Path, task: Task | None, data_dir: str | None) -> PreTrainedTokenizerBase:
    """The one that the recipe names, the start model's, or one learned from the corpus and the task's texts."""
    if recipe.model.tokenizer or recipe.model.start:
        return load_tokenizer(recipe.model.tokenizer or recipe.model.start)
    place = folder / "tokenizer"
    if not (place / "tokenizer.json").exists():
        texts = _all_texts(recipe, task, data_dir)
        train_tokenizer(texts, recipe.model.vocab_size, lowercase=recipe.model.lowercase).save_pretrained(place)
    return load_tokenizer(place)


def find_corpus(name: str, task: Task | None) -> Task:
    """What the warm-up reads: a corpus by its name, a text file, or ("task") the texts of the task itself."""
    if name != "task":
        return corpus_task(name)
    if task is None:
        raise ValueError('warmup.corpus = "task" needs a task: set task.name, or give a file of your own')
    return task


def corpus_lines(corpus: Task, split: str, data_dir: str | None) -> Iterator[str]:
    """The lines of a corpus to train on, or to validate with.

    Where there is no validation split, every 50th line of the training split is held out for it.
    """
    try:
        held_out = read_corpus(corpus, "validation", data_dir)
    except NoSuchSplit:
        lines = enumerate(read_corpus(corpus, "train", data_dir))
        return (line for number, line in lines if (number % 50 == 0) == (split == "validation"))
    return held_out if split == "validation" else read_corpus(corpus, split, data_dir)


def task_examples(task: Task, data_dir: str | None, rows: int) -> tuple[Examples, Examples, Labels]:
    """(rows to train on, rows to validate with, at most `rows`, the labels of all).

    Where there is no validation split, every tenth row of the training split is held out for it.
    """
    train = load_split(task, "train", data_dir)
    labels = find_labels_of(task, train)
    kind = "tags, one a word, of " if task.kind == "token" else ""
    logger.info("%s, column %r: %s%s", train.source, train.label_column, kind, labels)
    if labels.problem == "single_label_classification" and len(labels.names) < 2:
        problem = f"all rows have the label {labels.names[0]!r}; there is nothing to learn"
        raise BadFile(train.source, problem, column=train.label_column)
    try:
        return train, load_split(task, "validation", data_dir).first(rows), labels
    except NoSuchSplit:
        kept, held_out = ([row for row in range(len(train)) if bool(row % 10) == keep] for keep in (True, False))
        if not kept:
            raise BadFile(train.source, "has one row alone; some are held out, so two is the least") from None
        logger.info("there is no validation split: every tenth row of %s is held out", train.source)
        return train.only(kept), train.only(held_out).first(rows), labels


def corpus_words(
    corpus: Task, split: str, data_dir: str | None, tokenizer: PreTrainedTokenizerBase, tokens: int, max_words: int
) -> Tensor:
    """The word pieces of a split of a corpus, at most `max_words`. To train on, there must be `tokens` for one row."""
    words = encode_corpus(corpus_lines(corpus, split, data_dir), tokenizer, max_words)
    if len(words) < tokens:
        problem = f"the corpus {corpus.name} has {len(words)} word pieces ({split}), and one row takes {tokens}"
        if split == "train":
            raise ValueError(f"{problem}: give more text, a smaller warmup.tokens, or no warm-up (warmup.steps=0)")
        logger.warning("%s: the warm-up is not evaluated", problem)
    return words


def cached(file: Path, make: Callable[[], Tensor]) -> Tensor:
    """What `make` gives, from `file` where it was made before. An interrupted write leaves no half file behind."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part")  # two runs may make the same at once
        torch.save(make(), part)
        part.replace(file)
    found: Tensor = torch.load(file)
    return found


def _all_texts(recipe: Recipe, task: Task | None, data_dir: str | None) -> Iterator[str]:
    if recipe.warmup.steps:
        corpus = find_corpus(recipe.warmup.corpus, task)
        yield from _first_words(islice(corpus_lines(corpus, "train", data_dir), 0, None, 4), recipe.warmup.max_words)
    if task is not None:
        yield from read_corpus(task, "train", data_dir)


def _first_words(lines: Iterable[str], words: int) -> Iterator[str]:
    """The first lines, until they have that many words."""
    for line in lines:
        yield line
        words -= len(line.split())
        if words <= 0:
            return
