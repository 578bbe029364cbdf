"""What the families of contenders need to know: the encoder, the reference, and the data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from datamux.backbones.halves import LAYERS
from datamux.hub.loading import is_classifier, load_config, load_tokenizer
from datamux.hub.words import WordsConfig
from datamux.train.build import is_ours
from datamux.zoo import find_model

USUAL, SHIPPED = "minilm", "encoder"  # the default encoder: the first where it is installed, otherwise the second
STEP = 16  # the longest text is rounded up to a multiple of this


@dataclass(frozen=True)
class Encoder:
    """The encoder that the user named. `name` is empty if there is none, and the reference is then trained anew."""

    name: str
    is_classifier: bool
    layers: int
    hidden: int
    model_type: str
    called: str = ""  # as the user calls it, where `name` is a folder

    @property
    def can_be_cut(self) -> bool:
        return self.layers > 1

    @property
    def is_wide(self) -> bool:
        """A wide encoder forgets what it knows at the learning rate of a narrow one."""
        return self.hidden > 512

    @property
    def learning_rate(self) -> float:
        """For contenders that go on from the reference, cut or mixed."""
        return 5e-5 if self.is_wide else 2e-4

    @property
    def can_be_mixed_deep(self) -> bool:
        """Whether datamux knows where its layers are."""
        return self.model_type in LAYERS


@dataclass(frozen=True)
class Subject:
    """`reference` is the folder of the reference model, which is the teacher of every contender."""

    encoder: Encoder
    reference: str
    reference_is_ours: bool
    max_tokens: int
    tags: bool
    rows: int


def find_encoder(name: str | None) -> Encoder:
    """The named encoder. If none is named: MiniLM where it is installed, or else the encoder in the package."""
    if name is None:
        found = find_model(USUAL)
        name = USUAL if Path(found).is_dir() else SHIPPED
    if not name:
        return Encoder("", False, 4, 256, "bert")
    config: Any = load_config(name)
    encoder = config.backbone_config if is_ours(config) else config
    if isinstance(encoder, WordsConfig) or not hasattr(encoder, "num_hidden_layers"):
        raise ValueError(f"{name} has no layers, so it cannot be the reference: name a pretrained encoder")
    sizes = (encoder.num_hidden_layers, encoder.hidden_size, encoder.model_type)
    return Encoder(str(find_model(name)), is_classifier(config), *sizes, called=name)


def longest_text(texts: list[Any], tokenizer: PreTrainedTokenizerBase) -> int:
    """A limit that cuts no more than one text in two hundred."""
    words = isinstance(texts[0], list)
    pairs = [list(column) for column in zip(*texts, strict=True)] if isinstance(texts[0], tuple) else [texts]
    lengths = sorted(map(len, tokenizer(*pairs, is_split_into_words=words, return_attention_mask=False)["input_ids"]))
    usual = lengths[min(len(lengths) - 1, int(0.995 * len(lengths)))]
    return max(STEP, -(-usual // STEP) * STEP)


def tokens_allowed(name: str) -> int:
    """The longest text that an encoder and its tokenizer allow."""
    config = load_config(name)
    inner = getattr(config, "backbone_config", config)
    tokenizer = load_tokenizer(name)
    known = [tokenizer.model_max_length, getattr(inner, "max_position_embeddings", 512)]
    return int(min(limit for limit in known if limit))
