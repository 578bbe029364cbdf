"""What runs against what: the plain model and the multiplexed one of the same shape, and what else a user could do."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from math import gcd
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedConfig,
    PreTrainedModel,
)

from datamux.errors import check_choice
from datamux.hub import MuxConfig, MuxForSequenceClassification, MuxForTokenClassification
from datamux.hub.loading import load_config, load_tokenizer
from datamux.inference.exported import load_exported
from datamux.inference.predictor import Predictor
from datamux.inference.runtime import Runtime, TorchRuntime, run_passes
from datamux.inference.texts import Text, Texts, max_tokens_of
from datamux.tasks.examples import Examples
from datamux.tasks.rows import Rows
from datamux.tasks.task import get_task, load_split

ENGINES = ("torch", "bf16", "compiled", "onnx", "int8", "openvino")
MEMORY = 8 << 30  # batch sizes are tuned here, so memory shall not decide
TOKENIZER = "sentiment"  # in the package: counts the tokens of a task's texts where no model is given,
MAX_TOKENS = 512  # which are then cut as BERT would


@dataclass(frozen=True)
class Shape:
    """The size of an encoder, and what is asked of it."""

    layers: int = 4
    hidden: int = 256
    heads: int = 4
    vocab_size: int = 8000
    token_level: bool = False

    def encoder(self) -> PreTrainedConfig:
        """A BERT of this size."""
        config: PreTrainedConfig = AutoConfig.for_model(
            "bert",
            vocab_size=self.vocab_size,
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.hidden,
        )
        return config

    def plain(self) -> PreTrainedModel:
        return plain_model(self.encoder(), self.token_level)

    def multiplexed(self, num_instances: int, **options: Any) -> PreTrainedModel:
        """Options are those of MuxConfig. `index` reads the first position, as the paper does: it is faster so."""
        if options.get("demultiplexer") == "index":
            options = {"pooling": "first"} | options
        classes = {True: MuxForTokenClassification, False: MuxForSequenceClassification}
        config = MuxConfig(backbone_config=self.encoder().to_dict(), num_instances=num_instances, **options)
        return classes[self.token_level](config).eval()


def plain_model(encoder: PreTrainedConfig, token_level: bool) -> PreTrainedModel:
    """The Hugging Face classifier itself, with random weights: what a user has."""
    auto = AutoModelForTokenClassification if token_level else AutoModelForSequenceClassification
    model: PreTrainedModel = auto.from_config(encoder)
    return model.eval()


def random_rows(lengths: Sequence[int], vocab_size: int, seed: int = 0) -> Rows:
    """Rows of these lengths with random words."""
    chance = torch.Generator().manual_seed(seed)
    words = torch.randint(5, vocab_size, (sum(lengths),), generator=chance)
    return Rows([row.tolist() for row in torch.split(words, list(lengths))], pad_id=0)


def lengths_of(
    spec: str, count: int, data_dir: str | None = None, seed: int = 0, *, model: str | None = None
) -> list[int]:
    """`count` token counts: "fixed:128", or those of a task's texts, as the tokenizer of `model` splits them."""
    name, _, number = spec.partition(":")
    if name == "fixed":
        if not number.isdigit() or int(number) < 1:
            raise ValueError(f"lengths must be fixed:TOKENS or a task, got {spec!r}")
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


class FromIds:
    """Works through the first rows of `rows` (over and over, if there are too few), from token ids."""

    def __init__(self, runtime: Runtime, rows: Rows, group_size: int) -> None:
        self.runtime = runtime
        self.rows = rows
        self.group_size = group_size

    def __call__(self, instances: int, positions: int) -> None:
        while instances > 0:
            some = self.rows.first(min(instances, len(self.rows)))
            for _ in run_passes(self.runtime, some, self.group_size, positions=positions, memory=MEMORY):
                pass
            instances -= len(some)


def evenly(texts: Sequence[Text], length: Callable[[Text], int]) -> list[Text]:
    """In an order in which every stretch has long and short ones as the whole has: rounds then have the same work.

    Files are not: CoNLL-2003 has tables of short lines for a while, then articles.
    """
    ordered = sorted(texts, key=length)
    step = max(1, round(0.618 * len(ordered)))  # the golden section spreads evenly, however far one goes
    while gcd(step, len(ordered)) > 1:
        step += 1
    return [ordered[i * step % len(ordered)] for i in range(len(ordered))]


class FromTexts:
    """The same with tokenising and answers: what a user waits for. Every call goes on where the last one stopped."""

    def __init__(self, predictor: Predictor, texts: Sequence[Text], group_size: int) -> None:
        self.predictor = predictor
        predictor.memory = MEMORY
        predictor.tells_cuts = False  # it would at every round
        predictor.merges_copies = False  # texts that come round again are work here
        self.texts = cycle(evenly(texts, predictor.texts.letters))
        self.group_size = group_size

    def __call__(self, instances: int, positions: int) -> None:
        self.predictor.positions = positions
        for _ in self.predictor.stream(islice(self.texts, instances), group_size=self.group_size):
            pass


@contextmanager
def engine(model: PreTrainedModel, name: str) -> Iterator[Runtime]:
    """`model` on one of ENGINES. Exported files last as long as the context."""
    check_choice("engine", name, ENGINES)
    if name in ("torch", "bf16", "compiled"):
        yield TorchRuntime(model, bf16=name == "bf16", compiled=name == "compiled")
        return
    from datamux.inference.export import write_exported

    with TemporaryDirectory() as place:
        write_exported(
            TorchRuntime(model), Path(place), "openvino" if name == "openvino" else "onnx", int8=name == "int8"
        )
        exported = load_exported(Path(place), model.config)
        assert exported is not None
        yield exported
