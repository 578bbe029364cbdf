"""The texts of a run: its tokenizer, corpus and held-out rows. Slow results are saved in its folder and reused."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice
from pathlib import Path

import torch
from accelerate import PartialState
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from datamux.hub.loading import load_tokenizer
from datamux.tasks.examples import Examples
from datamux.tasks.files import BadFile
from datamux.tasks.holding_out import hold_out, shuffled
from datamux.tasks.labels import Labels
from datamux.tasks.rows import encode_corpus
from datamux.tasks.task import NoSuchSplit, Task, corpus_task, find_labels_of, load_split, read_corpus
from datamux.train.build import train_tokenizer
from datamux.train.recipe import Recipe

logger = logging.getLogger(__name__)
HELD_OUT = 0.1  # of the rows, where there is no validation split
HELD_OUT_SEED = 0  # the same rows whatever the seed of a run, so that runs can be compared


def first_process_first() -> AbstractContextManager[None]:
    """Under torchrun, one process does the work first; the others then find the results in the (shared) folder."""
    context: AbstractContextManager[None] = PartialState(cpu=not torch.cuda.is_available()).main_process_first()
    return context


def find_tokenizer(recipe: Recipe, folder: Path, task: Task | None, data_dir: str | None) -> PreTrainedTokenizerBase:
    """The tokenizer that the recipe names, the start model's, or one learned from the corpus and the task's texts."""
    if recipe.model.tokenizer or recipe.model.start:
        return load_tokenizer(recipe.model.tokenizer or recipe.model.start)
    place = folder / "tokenizer"
    if not (place / "tokenizer.json").exists():
        texts = _all_texts(recipe, task, data_dir)
        train_tokenizer(texts, recipe.model.vocab_size, lowercase=recipe.model.lowercase).save_pretrained(place)
    return load_tokenizer(place)


def find_corpora(names: str, task: Task | None) -> list[Task]:
    """The corpora of the warm-up: known ones, text files, or, for "task", the texts of the task itself."""
    if task is None and "task" in names.split("+"):
        raise ValueError('warmup.corpus = "task" needs a task: set task.name, or give a file of your own')
    return [task if name == "task" and task is not None else corpus_task(name) for name in names.split("+")]


def corpus_lines(corpora: Sequence[Task], split: str, data_dir: str | None) -> Iterator[str]:
    """The lines of some corpora, one after the other, for training or for validation."""
    return chain.from_iterable(_lines(corpus, split, data_dir) for corpus in corpora)


def _lines(corpus: Task, split: str, data_dir: str | None) -> Iterator[str]:
    """If there is no validation split, every 50th line of the training split is held out for it."""
    try:
        held_out = read_corpus(corpus, "validation", data_dir)
    except NoSuchSplit:
        lines = enumerate(read_corpus(corpus, "train", data_dir))
        return (line for number, line in lines if (number % 50 == 0) == (split == "validation"))
    return held_out if split == "validation" else read_corpus(corpus, split, data_dir)


def task_examples(task: Task, data_dir: str | None, rows: int) -> tuple[Examples, Examples, Labels]:
    """The training rows, at most `rows` validation rows, and the labels of the task.

    If there is no validation split, a tenth of the training rows is held out for it. If there is one and it is larger,
    a random part of it is used.
    """
    train = load_split(task, "train", data_dir)
    labels = find_labels_of(task, train)
    kind = "one tag per word, from " if task.kind == "token" else ""
    logger.info("%s, column %r: %s%s", train.source, train.label_column, kind, labels)
    if labels.problem == "single_label_classification" and len(labels.names) < 2:
        problem = f"all rows have the label {labels.names[0]!r}; there is nothing to learn"
        raise BadFile(train.source, problem, column=train.label_column)
    try:
        validation = load_split(task, "validation", data_dir)
    except NoSuchSplit:
        remaining, held_out = hold_out(train, HELD_OUT, rows, HELD_OUT_SEED, labels)
        if not len(held_out):
            problem = "has only one text; a tenth of the rows is held out for validation, so at least two are needed"
            raise BadFile(train.source, problem) from None
        logger.info("there is no validation split: %d rows of %s are held out", len(held_out), train.source)
        return remaining, held_out, labels
    return train, validation if len(validation) <= rows else shuffled(validation, HELD_OUT_SEED).first(rows), labels


def corpus_words(
    corpora: Sequence[Task],
    split: str,
    data_dir: str | None,
    tokenizer: PreTrainedTokenizerBase,
    tokens: int,
    max_words: int,
) -> Tensor:
    """The first `max_words` word pieces of a split of a corpus. A training split must fill one row of `tokens`."""
    words = encode_corpus(corpus_lines(corpora, split, data_dir), tokenizer, max_words)
    if len(words) < tokens:
        names = "+".join(corpus.name for corpus in corpora)
        problem = f"the corpus {names} has {len(words)} word pieces ({split}), and one row takes {tokens}"
        if split == "train":
            raise ValueError(f"{problem}: give more text, a smaller warmup.tokens, or no warm-up (warmup.steps=0)")
        logger.warning("%s: the warm-up is not evaluated", problem)
    return words


def cache_folder() -> Path:
    """Where answers of a pretrained teacher are kept: below $XDG_CACHE_HOME, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "datamux"


def cached(file: Path, make: Callable[[], Tensor]) -> Tensor:
    """The result of `make`, saved in `file` for the next time. An interrupted write leaves no file behind."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part")  # two runs may write the same file at once
        torch.save(make(), part)
        part.replace(file)
    found: Tensor = torch.load(file)
    return found


def _all_texts(recipe: Recipe, task: Task | None, data_dir: str | None) -> Iterator[str]:
    if recipe.warmup.steps:
        corpora = find_corpora(recipe.warmup.corpus, task)
        for corpus in corpora:
            lines = islice(corpus_lines([corpus], "train", data_dir), 0, None, 4)
            yield from _first_words(lines, recipe.warmup.max_words // len(corpora))
    if task is not None:
        yield from read_corpus(task, "train", data_dir)


def _first_words(lines: Iterable[str], words: int) -> Iterator[str]:
    """The first lines, until they have that many words."""
    for line in lines:
        yield line
        words -= len(line.split())
        if words <= 0:
            return
