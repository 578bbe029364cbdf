"""What the models in a benchmark work through: rows of token ids, or texts from a task."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from math import gcd
from statistics import fmean
from typing import Any

import torch

from datamux.evaluate.timing import Work
from datamux.hub.loading import load_config, load_tokenizer
from datamux.inference.predictor import Predictor
from datamux.inference.runtime import Runtime, run_passes
from datamux.inference.texts import Text, Texts, max_tokens_of
from datamux.tasks.examples import Examples
from datamux.tasks.rows import Rows
from datamux.tasks.task import get_task, load_split

POOL = 40_000  # instances that a benchmark works through, again and again
MEMORY = 8 << 30  # benchmarks tune the batch size, so memory must not limit it
TOKENIZER = "sentiment"  # a model in the package, whose tokenizer is used where no model is given;
MAX_TOKENS = 512  # texts are then cut at BERT's limit
WORDS = 1 << 23  # random words that a benchmark holds at most: long rows are fewer, and come again sooner


def random_rows(lengths: Sequence[int], vocab_size: int, seed: int = 0) -> Rows:
    """Rows of these lengths with random words."""
    chance = torch.Generator().manual_seed(seed)
    words = torch.randint(5, vocab_size, (sum(lengths),), generator=chance)
    return Rows([row.tolist() for row in torch.split(words, list(lengths))], pad_id=0)


def longest_of(spec: str) -> int:
    """How many tokens an instance of these lengths has at most."""
    _, _, number = spec.partition(":")
    return int(number) if number.isdigit() else MAX_TOKENS


def lengths_of(
    spec: str, count: int, data_dir: str | None = None, seed: int = 0, *, model: str | None = None
) -> list[int]:
    """`count` token counts: all the same ("fixed:128"), or those of a task's texts under the tokenizer of `model`."""
    name, _, number = spec.partition(":")
    if name == "fixed":
        if not number.isdigit() or int(number) < 1:
            raise ValueError(f"lengths must be fixed:TOKENS (such as fixed:128) or the name of a task, got {spec!r}")
        return [int(number)] * count
    given = inputs_of(load_split(get_task(name), "train", data_dir).first(count))
    tokenizer = load_tokenizer(model or TOKENIZER)
    max_tokens = max_tokens_of(tokenizer, load_config(model)) if model else MAX_TOKENS
    found = Texts(tokenizer, max_tokens, token_level=isinstance(given[0], list)).window(given).lengths
    random.Random(seed).shuffle(found)
    return list(islice(cycle(found), count))


def inputs_of(examples: Examples) -> list[Text]:
    """Texts, pairs, or lists of words, as a predictor takes them."""
    if examples.pairs is None:
        return list(examples.texts)
    return list(zip(examples.texts, examples.pairs, strict=True))


def evenly(texts: Sequence[Text], length: Callable[[Text], int]) -> list[Text]:
    """Reorder texts so that every stretch mixes long and short ones as all texts do; then every round is equal work.

    The order of a file does not: CoNLL-2003 has tables of short lines for a while, then articles.
    """
    ordered = sorted(texts, key=length)
    step = max(1, round(0.618 * len(ordered)))  # steps of the golden section spread evenly over any number of texts
    while gcd(step, len(ordered)) > 1:
        step += 1
    return [ordered[i * step % len(ordered)] for i in range(len(ordered))]


class FromTexts:
    """Works from texts to answers, which is what a user waits for. Every call continues where the last one stopped.

    It leaves the caller's predictor as it is, and uses a copy that runs every copy of a text and does not warn about
    texts that are cut.
    """

    def __init__(self, predictor: Predictor, texts: Sequence[Text], group_size: int) -> None:
        self.predictor = predictor.with_settings(memory=MEMORY, tells_cuts=False, merges_copies=False)
        self.texts = cycle(evenly(texts, predictor.texts.letters))
        self.group_size = group_size

    def __call__(self, instances: int, positions: int) -> None:
        predictor = self.predictor.with_settings(positions=positions)
        for _ in predictor.stream(islice(self.texts, instances), group_size=self.group_size):
            pass


@dataclass(frozen=True)
class Workload:
    """The same work for every contender: `work` makes it for a runtime and a group size.

    An instance has `tokens` tokens on average.
    """

    work: Callable[[Runtime, int], Work]
    tokens: float


def token_ids(lengths: str, vocab_size: int, *, model: str | None = None, data_dir: str | None = None) -> Workload:
    """From random token ids to logits; `lengths` is as for `lengths_of`."""
    counts = lengths_of(lengths, POOL, data_dir, model=model)
    rows = random_rows(counts[: max(1, int(WORDS / fmean(counts)))], vocab_size)

    def work(runtime: Runtime, k: int) -> Work:
        def answer_first_rows(instances: int, positions: int) -> None:
            while instances > 0:  # starts again when it has run all rows
                some = rows.first(min(instances, len(rows)))
                for _ in run_passes(runtime, some, k, positions=positions, memory=MEMORY):
                    pass
                instances -= len(some)

        return answer_first_rows

    return Workload(work, fmean(counts))


def task_texts(task: str, config: Any, *, model: str | None = None, data_dir: str | None = None) -> Workload:
    """From the texts of a task to answers, for classifiers with this configuration."""
    tokenizer = load_tokenizer(model or TOKENIZER)
    if model is None:
        tokenizer.model_max_length = MAX_TOKENS
    texts = inputs_of(load_split(get_task(task), "train", data_dir).first(POOL))
    sample = Texts(tokenizer, max_tokens_of(tokenizer, config), token_level=False).window(texts[:1000])

    def work(runtime: Runtime, k: int) -> Work:
        return FromTexts(Predictor(runtime, tokenizer, config, token_level=False), texts, k)

    return Workload(work, fmean(sample.lengths))
