"""From a recipe to a tokenizer and a model: new, from a pretrained encoder, or from an earlier run of ours."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, trainers
from tokenizers.models import WordPiece
from transformers import (
    AutoConfig,
    AutoModel,
    BertTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from datamux.hub import MuxConfig
from datamux.hub.loading import load_config, load_model
from datamux.hub.multiplex import TASKS
from datamux.inference.runtime import bf16_is_quick
from datamux.tasks.labels import Labels
from datamux.train.recipe import ModelSettings, RunSettings

logger = logging.getLogger(__name__)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
BERT_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")  # as most families call them
DROPOUTS = {
    "distilbert": ("dropout", "attention_dropout"),
    "modernbert": ("embedding_dropout", "attention_dropout", "mlp_dropout"),
}


def train_tokenizer(lines: Iterable[str], vocab_size: int, *, lowercase: bool) -> PreTrainedTokenizerBase:
    """A BERT tokenizer with word pieces learned from `lines`."""
    learner = Tokenizer(WordPiece(unk_token="[UNK]"))
    learner.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=lowercase)
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=list(SPECIAL), show_progress=False)
    learner.train_from_iterator(lines, trainer)
    tokenizer: PreTrainedTokenizerBase = BertTokenizer(
        vocab=learner.get_vocab(), do_lower_case=lowercase, strip_accents=lowercase
    )
    return tokenizer


def new_encoder_config(settings: ModelSettings, vocab_size: int) -> PreTrainedConfig:
    """The configuration of an encoder with new weights."""
    config: PreTrainedConfig = AutoConfig.for_model(
        settings.architecture,
        vocab_size=vocab_size,
        hidden_size=settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.hidden,
        max_position_embeddings=max(512, settings.max_tokens),
    )
    _set_dropout(config, settings.dropout)
    return config


def _set_dropout(config: PreTrainedConfig, dropout: float) -> None:
    for name in DROPOUTS.get(config.model_type, BERT_DROPOUTS):
        if hasattr(config, name):
            setattr(config, name, dropout)
        else:
            logger.warning("model.dropout does not reach %s: it has no %s", config.model_type, name)


def build(
    settings: ModelSettings, task: str, *, vocab_size: int, labels: Labels | None = None, seed: int = 0
) -> PreTrainedModel:
    """The multiplexed model of a recipe for `task` ("retrieval", "sequence-classification", ...)."""
    _check_kept_layers(settings)
    torch.manual_seed(seed)
    options: dict[str, Any] = {
        "num_instances": settings.num_instances,
        "mux_layer": settings.mux_layer,
        "multiplexer": settings.multiplexer,
        "multiplexer_options": settings.multiplexer_options or None,
        "demultiplexer": settings.demultiplexer,
        "demultiplexer_options": settings.demultiplexer_options or None,
        "pooling": settings.pooling,
        "head_context": settings.head_context,
        "bypass": settings.bypass,
        "retrieval_head": True,
        "seed": seed,
    }
    if labels is not None:
        options["id2label"] = dict(enumerate(labels.names))
        options["problem_type"] = labels.problem
    if not settings.start:
        config = new_encoder_config(settings, vocab_size)
        return TASKS[task](MuxConfig(backbone_config=config.to_dict(), **options))
    start = _load_start(settings)
    encoder_config = start.config.backbone_config if is_ours(start.config) else start.config
    _set_dropout(encoder_config, settings.dropout)
    if settings.keep_layers:
        encoder_config.num_hidden_layers = settings.keep_layers
    if vocab_size > encoder_config.vocab_size:
        raise ValueError(
            f"the tokenizer has {vocab_size} words and {settings.start} only {encoder_config.vocab_size}; "
            "leave model.tokenizer empty to use the start model's own"
        )
    model = TASKS[task](MuxConfig(backbone_config=encoder_config.to_dict(), **options))
    copy_weights(start, model)
    return model


def _check_kept_layers(settings: ModelSettings) -> None:
    if not settings.keep_layers:
        return
    if not settings.start:
        raise ValueError("model.keep_layers cuts a start model: set model.start, or model.layers for a new one")
    config = load_config(settings.start)
    layers = (config.backbone_config if is_ours(config) else config).num_hidden_layers
    if not 1 <= settings.keep_layers <= layers:
        raise ValueError(
            f"model.keep_layers must be 1 to {layers}, the layers of {settings.start}, got {settings.keep_layers}"
        )


def is_ours(config: PreTrainedConfig) -> bool:
    return bool(config.model_type == MuxConfig.model_type)


def _load_start(settings: ModelSettings) -> PreTrainedModel:
    if is_ours(load_config(settings.start)):
        return load_model(settings.start)
    changes = {"num_hidden_layers": settings.keep_layers} if settings.keep_layers else {}
    encoder: PreTrainedModel = AutoModel.from_pretrained(settings.start, dtype=torch.float32, **changes)
    return encoder


def copy_weights(start: PreTrainedModel, model: PreTrainedModel) -> list[str]:
    """Copy what `start` has that `model` can use: all of the encoder, and each part that is built the same way.

    Returns the names of our parts that start anew.
    """
    ours = is_ours(start.config)
    prefix = "" if ours else "mux.backbone.encoder."
    given = {prefix + name: value for name, value in start.state_dict().items()}
    own = model.state_dict()
    parts = {name.rpartition(".")[0] if name.count(".") < 2 else ".".join(name.split(".")[:2]) for name in own}
    fresh = []
    for part in sorted(parts):
        names = [name for name in own if name.startswith(part + ".")]
        fits = all(name in given and given[name].shape == own[name].shape for name in names)
        if part == "mux.backbone" and not fits:
            raise ValueError(f"the encoder of the start model does not fit: {[n for n in names if n not in given][:3]}")
        if fits and _built_alike(part, start.config, model.config):
            model.load_state_dict({name: given[name] for name in names}, strict=False)
        else:
            fresh.append(part)
    lost = [part for part in fresh if ours and model.config.num_instances > 1 and part.endswith("multiplexer")]
    logger.log(
        logging.WARNING if lost else logging.INFO, "not taken from the start model: %s", ", ".join(fresh) or "nothing"
    )
    return fresh


def copy_head(teacher: PreTrainedModel, model: PreTrainedModel, order: Sequence[int]) -> None:
    """Start with the head of a teacher that is one of ours; `order` has the teacher's number of each of our labels."""
    if not is_ours(teacher.config):
        return
    given = {name: value for name, value in teacher.state_dict().items() if name.startswith("mux.head.")}
    given |= {name: value[list(order)] for name, value in given.items() if name.startswith("mux.head.out.")}
    own = model.state_dict()
    names = {name for name in own if name.startswith("mux.head.")}
    if names == given.keys() and all(own[name].shape == value.shape for name, value in given.items()):
        model.load_state_dict(given, strict=False)


def _built_alike(part: str, start: PreTrainedConfig, config: MuxConfig) -> bool:
    """Whether a part of equal shapes also means the same: keys belong to their multiplexer, a head to its labels."""
    kind = part.rpartition(".")[2]
    if kind in ("multiplexer", "demultiplexer"):
        options = f"{kind}_options"
        return bool(
            getattr(start, kind) == getattr(config, kind) and getattr(start, options) == getattr(config, options)
        )
    return kind != "head" or bool(start.id2label == config.id2label)


def in_bf16(run: RunSettings) -> bool:
    """Whether to train in half precision: as the recipe says, or as the machine likes it."""
    return run.bf16 if isinstance(run.bf16, bool) else bf16_is_quick()
