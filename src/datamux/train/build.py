"""From a recipe to a tokenizer and a model: new, from a pretrained encoder, or from an earlier run of ours."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, trainers
from tokenizers.models import WordPiece
from torch import Tensor
from transformers import BertTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from datamux.backbones.halves import LAYERS, check_layer
from datamux.hub import MuxConfig
from datamux.hub.encoders import new_encoder_config, set_dropout
from datamux.hub.loading import load_config, load_encoder, load_model
from datamux.hub.models import MODEL_CLASSES
from datamux.hub.multiplex import multiplex
from datamux.inference.runtime import bf16_is_quick
from datamux.tasks.labels import Labels
from datamux.train.recipe import ModelSettings, RunSettings

logger = logging.getLogger(__name__)
PARTS = ("multiplexer", "demultiplexer")
OF_MUX_CONFIG = (
    *PARTS,
    "num_instances",
    "mux_layer",
    "low_rank",
    "pooling",
    "head_context",
)  # the same in a recipe and MuxConfig
DEMULTIPLEXER, PREFIX = "mux.demultiplexer", "mux.demultiplexer.tokens"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


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


def encoder_of_recipe(settings: ModelSettings, vocab_size: int) -> PreTrainedConfig:
    """The configuration of a recipe's encoder, which starts with new weights."""
    return new_encoder_config(
        settings.architecture,
        vocab_size=vocab_size,
        hidden=settings.hidden,
        layers=settings.layers,
        heads=settings.heads,
        max_positions=max(512, settings.max_tokens),
        dropout=settings.dropout,
    )


def build(
    settings: ModelSettings, task: str, *, vocab_size: int, labels: Labels | None = None, seed: int = 0
) -> PreTrainedModel:
    """The multiplexed model of a recipe for `task` ("retrieval", "sequence-classification", ...)."""
    check_layers(settings)
    torch.manual_seed(seed)
    options: dict[str, Any] = {name: getattr(settings, name) for name in OF_MUX_CONFIG}
    options |= {f"{part}_options": getattr(settings, f"{part}_options") or None for part in PARTS}
    options |= {"retrieval_head": True, "seed": seed}
    if labels is not None:
        options["id2label"] = dict(enumerate(labels.names))
        options["problem_type"] = labels.problem
    if settings.frozen:
        return _around_start(settings, task, options)
    if not settings.start:
        config = encoder_of_recipe(settings, vocab_size)
        return MODEL_CLASSES[task](MuxConfig(backbone_config=config.to_dict(), **options))
    start = _load_start(settings)
    encoder_config = start.config.backbone_config if is_ours(start.config) else start.config
    set_dropout(encoder_config, settings.dropout)
    if settings.keep_layers:
        encoder_config.num_hidden_layers = settings.keep_layers
    if vocab_size > encoder_config.vocab_size:
        raise ValueError(
            f"the tokenizer has {vocab_size} words and {settings.start} has only {encoder_config.vocab_size}; "
            "leave model.tokenizer empty to use the start model's own tokenizer"
        )
    model = MODEL_CLASSES[task](MuxConfig(backbone_config=encoder_config.to_dict(), **options))
    copy_weights(start, model, new_demultiplexer=settings.new_demultiplexer)
    return model


def _around_start(settings: ModelSettings, task: str, options: dict[str, Any]) -> PreTrainedModel:
    """A model around a plain classifier that stays as it is. Its head is the classifier's own."""
    if settings.num_instances == 1:
        raise ValueError("model.frozen leaves nothing to train at num_instances 1: choose at least 2")
    fixed = ("num_instances", "pooling", "head_context", "retrieval_head")
    options = {name: value for name, value in options.items() if name not in fixed}
    return multiplex(settings.start, settings.num_instances, task=task, frozen=True, **options)


def check_layers(settings: ModelSettings) -> None:
    """Raise if the encoder of a recipe does not have the layers that are kept, or cannot be mixed after one of them."""
    if not settings.keep_layers and not settings.mux_layer:
        return
    family, layers = settings.architecture, settings.layers
    if settings.start:
        config = load_config(settings.start)
        config = config.backbone_config if is_ours(config) else config
        family, layers = config.model_type, config.num_hidden_layers
    elif settings.keep_layers:
        raise ValueError("model.keep_layers cuts a start model: set model.start, or model.layers for a new one")
    if settings.keep_layers and not 1 <= settings.keep_layers <= layers:
        raise ValueError(
            f"model.keep_layers must be 1 to {layers}, the layers of {settings.start}, got {settings.keep_layers}"
        )
    if settings.mux_layer and family not in LAYERS:
        raise ValueError(
            f"{settings.start or 'the new encoder'} cannot be mixed after layer {settings.mux_layer}, because datamux "
            f"does not know where the layers of {family!r} are (it knows those of {', '.join(LAYERS)}). Mix its words "
            "with --set model.mux_layer=0, or let `datamux tune` find the fastest model that is good enough"
        )
    if settings.mux_layer:
        check_layer(settings.mux_layer, settings.keep_layers or layers)


def is_ours(config: PreTrainedConfig) -> bool:
    return isinstance(config, MuxConfig)


def _load_start(settings: ModelSettings) -> PreTrainedModel:
    if is_ours(load_config(settings.start)):
        return load_model(settings.start)
    changes = {"num_hidden_layers": settings.keep_layers} if settings.keep_layers else {}
    return load_encoder(settings.start, **changes)


def copy_weights(start: PreTrainedModel, model: PreTrainedModel, *, new_demultiplexer: bool = False) -> list[str]:
    """Copy what `start` has that `model` can use: all of the encoder, and each part that is built the same way.

    A model with fewer slots takes the first slots of `start`. With `new_demultiplexer`, the demultiplexer starts anew,
    as in the published code; only the vectors of a prefix are copied, which belong to the encoder's input. Returns the
    names of our parts that start anew.
    """
    ours = is_ours(start.config)
    prefix = "" if ours else "mux.backbone.encoder."
    given = {prefix + name: value for name, value in start.state_dict().items()}
    weights = model.state_dict()
    if ours:
        given = {
            name: _first_slots(value, weights.get(name), start.config, model.config) for name, value in given.items()
        }
    fresh: list[str] = []
    for part in sorted({_part_of(name) for name in weights}):
        names = [name for name in weights if _part_of(name) == part]
        fits = all(name in given and given[name].shape == weights[name].shape for name in names)
        if part == "mux.backbone" and not fits:
            raise ValueError(f"the encoder of the start model does not fit: {[n for n in names if n not in given][:3]}")
        if new_demultiplexer and part == DEMULTIPLEXER:
            names, fresh = [name for name in names if name == PREFIX], [*fresh, part]
        if fits and _built_alike(part, start.config, model.config):
            model.load_state_dict({name: given[name] for name in names}, strict=False)
        elif part not in fresh:
            fresh.append(part)
    lost = [part for part in fresh if ours and model.config.num_instances > 1 and part.endswith("multiplexer")]
    logger.log(
        logging.WARNING if lost else logging.INFO, "not taken from the start model: %s", ", ".join(fresh) or "nothing"
    )
    return fresh


def _part_of(name: str) -> str:
    """The part of a model that a weight belongs to: "mux.backbone", "mux.head", "retrieval", ..."""
    if name.startswith("mux.backbone.updates."):
        return "mux.backbone.updates"
    return name.rpartition(".")[0] if name.count(".") < 2 else ".".join(name.split(".")[:2])


def _first_slots(value: Tensor, own: Tensor | None, start: PreTrainedConfig, config: MuxConfig) -> Tensor:
    """Of a tensor with one row per slot, as many rows as the model has slots; any other tensor unchanged."""
    slots = config.num_instances
    per_slot = value.dim() > 0 and value.shape[0] == start.num_instances
    if own is not None and per_slot and slots < start.num_instances and own.shape == value[:slots].shape:
        return value[:slots]
    return value


def copy_head(teacher: PreTrainedModel, model: PreTrainedModel, order: Sequence[int]) -> None:
    """Start with the head of a teacher that is one of ours; `order` has the teacher's number of each of our labels."""
    if not is_ours(teacher.config):
        return
    given = {name: value for name, value in teacher.state_dict().items() if name.startswith("mux.head.")}
    given |= {name: value[list(order)] for name, value in given.items() if name.startswith("mux.head.out.")}
    weights = model.state_dict()
    names = {name for name in weights if name.startswith("mux.head.")}
    if names == given.keys() and all(weights[name].shape == value.shape for name, value in given.items()):
        model.load_state_dict(given, strict=False)


def has_own_head(start: str, model: PreTrainedModel) -> bool:
    """Whether `build` gave a model the head of its start model: one of ours, for the same labels and of the same shape.

    A contender that goes on from its own model keeps what its head has learned.
    """
    if not start or not is_ours(config := load_config(start)):
        return False
    own = model.config
    same_task = type(model).__name__ in (config.architectures or ()) and config.id2label == own.id2label
    return same_task and config.head_context == own.head_context and _built_alike(DEMULTIPLEXER, config, own)


def _built_alike(part: str, start: PreTrainedConfig, config: MuxConfig) -> bool:
    """Whether a part of equal shapes also means the same: keys belong to their multiplexer, a head to its labels."""
    kind = part.rpartition(".")[2]
    if kind in PARTS:
        options = f"{kind}_options"
        return bool(
            getattr(start, kind) == getattr(config, kind) and getattr(start, options) == getattr(config, options)
        )
    return kind != "head" or bool(start.id2label == config.id2label)


def in_bf16(run: RunSettings) -> bool:
    """Whether to train in half precision: as the recipe says, or if the machine has instructions for it."""
    return run.bf16 if isinstance(run.bf16, bool) else bf16_is_quick()
