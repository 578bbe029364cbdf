"""Reads a published checkpoint: what it is, and its weights under our names.

What a checkpoint is follows from the fields of its configuration and the names of its weights. It does not know how a
model runs, nor where a folder or a name on the Hub comes from.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import is_zipfile

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.utils import cached_file

from datamux.errors import check_choice
from datamux.hub.config import MuxConfig
from datamux.hub.published.models import PUBLISHED_CLASSES, PublishedConfig, PublishedModel
from datamux.hub.published.weights import find_task, our_weights

FILES = ("model.safetensors", "pytorch_model.bin")
FIELDS = ("num_instances", "muxing_variant", "demuxing_variant")
MULTIPLEXERS = {  # as published -> (ours, ours if learned, scale)
    "gaussian_hadamard": ("gaussian_hadamard", "learned_hadamard", "mean"),
    "binary_hadamard": ("gaussian_hadamard", "learned_hadamard", "mean"),  # our "binary" needs d to be divisible by n
    "random_ortho": ("ortho", "learned_ortho", "sqrt"),
    "random_ortho_low_rank": ("ortho", "learned_ortho", "sqrt"),  # of MUX-PLM: its keys are whole matrices, too
}
CONTEXTUAL = "gaussian_attention_v2"  # of MUX-PLM only
DEMULTIPLEXERS = {  # of DataMUX, which is RoBERTa, and of MUX-PLM, of which the BERT models are known
    "roberta": {"index": "published_index", "mlp": "published_mlp"},
    "bert": {"index_pos": "published_key"},
}
TOKENIZERS = {"roberta": "roberta-base", "bert": "bert-base-uncased"}
DEMULTIPLEXER_LAYERS = 2  # of MUX-PLM, where the configuration does not say
TRAINED_LENGTH = 128  # the authors' scripts cut and pad every text to this many tokens
_TRAINING_FIELDS = (
    "retrieval_loss_coeff",
    "task_loss_coeff",
    "retrieval_percentage",
    "retrieval_loss_vocab_scale",
    "gaussian_hadamard_norm",
    "binary_hadamard_epsilon",
    "learn_muxing",
    "finetuning_task",
    "num_hidden_demux_layers",
)
_LABEL_FIELDS = ("id2label", "label2id", "num_labels", "problem_type", "architectures")
_ENTITIES = ("PER", "ORG", "LOC", "MISC")
LABELS = {  # the names behind LABEL_0, LABEL_1, ...: the numbers are those of the Hub's data sets
    "sst2": ("negative", "positive"),
    "qqp": ("different", "duplicate"),
    "mnli": ("entailment", "neutral", "contradiction"),
    "qnli": ("entailment", "not_entailment"),
    "ner": ("O", *(f"{place}-{entity}" for entity in _ENTITIES for place in "BI")),
}
ON_THE_HUB = ("retrieval", "mnli", "qnli", "qqp", "sst2", "ner")
SLOTS_ON_THE_HUB = (2, 5, 10, 20, 40)
MUX_PLM_SIZES = ("small", "base", "large")
MUX_PLM_SLOTS = (2, 5, 10)


def published_names() -> dict[str, tuple[str, int]]:
    """The checkpoints on the Hub: name -> (what it was trained on, slots)."""
    names = {f"datamux-{task}-{slots}": (task, slots) for task in ON_THE_HUB for slots in SLOTS_ON_THE_HUB}
    for slots in MUX_PLM_SLOTS:
        strategies = f"gaussian_hadamard_index_pos_{slots}"
        names |= {f"muxbert_{size}_{strategies}": ("masked words", slots) for size in MUX_PLM_SIZES}
        names[f"muxbert_base_{CONTEXTUAL}_index_pos_{slots}"] = ("masked words", slots)
        names |= {f"muxbert_base_{task}_{strategies}": (task, slots) for task in ("mnli", "qnli", "qqp", "sst2")}
    return {f"princeton-nlp/{name}": found for name, found in names.items()}


@dataclass(frozen=True)
class Checkpoint:
    """A published checkpoint: its name for messages, its own configuration, and the file of its weights.

    Only `model` reads the weights, hundreds of megabytes; what a checkpoint is, their names say.
    """

    name: str
    config: PreTrainedConfig
    file: Path

    def task(self) -> str:
        """One of the keys of `PUBLISHED_CLASSES`."""
        return find_task(self.name, self.config, _names_in(self.file))

    def our_config(self, task: str, padded_length: int | None = TRAINED_LENGTH) -> PublishedConfig:
        """The configuration of the model for `task`. `padded_length` shrinks if the encoder has fewer positions."""
        theirs = self.config
        encoder = {name: value for name, value in theirs.to_dict().items() if name not in (*FIELDS, *_TRAINING_FIELDS)}
        encoder = {name: value for name, value in encoder.items() if name not in _LABEL_FIELDS}
        multiplexer, options = self._multiplexer(task)
        n = theirs.num_instances
        if padded_length is not None:
            taken = n + 1 if theirs.demuxing_variant == "index" else 0
            taken += theirs.pad_token_id + 1 if theirs.model_type == "roberta" else 0  # RoBERTa counts from there
            positions = theirs.max_position_embeddings - taken
            padded_length = max(1, min(padded_length, positions))
        config = PublishedConfig(
            backbone_config=encoder,
            num_instances=n,
            multiplexer=multiplexer,
            multiplexer_options=options,
            demultiplexer=DEMULTIPLEXERS[theirs.model_type][theirs.demuxing_variant],
            demultiplexer_options=self._demultiplexer_options(task),
            muxing_variant=theirs.muxing_variant,
            padded_length=padded_length,
            retrieval_head=task == "retrieval",
            id2label=_label_names(self.name, theirs),
            problem_type=theirs.problem_type,
        )
        config.architectures = [PUBLISHED_CLASSES[task].__name__]
        config._commit_hash = getattr(theirs, "_commit_hash", None)
        return config

    def _multiplexer(self, task: str) -> tuple[str, dict[str, Any]]:
        """The name and the options of our multiplexer."""
        theirs, is_learned = self.config, bool(getattr(self.config, "learn_muxing", False))
        if theirs.muxing_variant != CONTEXTUAL:
            fixed, learned, scale = MULTIPLEXERS[theirs.muxing_variant]
            return learned if is_learned else fixed, {"scale": scale}
        sizes = {"num_heads": theirs.num_attention_heads, "inner_dim": theirs.intermediate_size}
        options = {"eps": theirs.layer_norm_eps, "learned": is_learned, "slots_see_padding": task == "retrieval"}
        return "published_contextual", sizes | options

    def _demultiplexer_options(self, task: str) -> dict[str, Any] | None:
        if self.config.demuxing_variant != "index_pos":
            return None
        layers = getattr(self.config, "num_hidden_demux_layers", None) or DEMULTIPLEXER_LAYERS
        padding = {"tells_padding": self.config.muxing_variant == CONTEXTUAL}
        if task == "retrieval":  # the published code has two there, whatever the configuration says
            return {"layers": 2, "for_retrieval": True} | padding
        return {"layers": max(1, layers - 1)} | padding  # the task leaves the last one out

    def model(self, task: str, padded_length: int | None = TRAINED_LENGTH) -> PublishedModel:
        """The model for `task`, with these weights."""
        model = PUBLISHED_CLASSES[task](self.our_config(task, padded_length))
        model.load_state_dict(our_weights(self.name, _weights_in(self.file), model, task))
        model.eval()
        return model


def is_published(config: PreTrainedConfig) -> bool:
    """Whether this is the configuration of a published checkpoint, not of one that was saved in our format."""
    return not isinstance(config, MuxConfig) and hasattr(config, "muxing_variant")


def read_checkpoint(name: str, config: PreTrainedConfig) -> Checkpoint:
    """The checkpoint in a folder, or on the Hub, with this configuration. Anything else is an error that says why."""
    missing = [field for field in FIELDS if not hasattr(config, field)]
    if missing:
        raise ValueError(
            f"{name} is not a published checkpoint: the configuration of an encoder with {', '.join(FIELDS)} was "
            f"expected, but this {config.model_type} configuration has no {', '.join(missing)}"
        )
    if config.model_type not in DEMULTIPLEXERS:
        raise ValueError(
            f"{name} multiplexes {config.model_type!r}; load_published() reads the checkpoints of DataMUX, which are "
            "RoBERTa, and those of MUX-PLM that are BERT (docs/guides/published.md says what is missing for others)"
        )
    check_choice(
        f"muxing_variant of a {config.model_type} checkpoint:",
        config.muxing_variant,
        [*MULTIPLEXERS, CONTEXTUAL] if config.model_type == "bert" else MULTIPLEXERS,
    )
    allowed = DEMULTIPLEXERS[config.model_type]
    check_choice(f"demuxing_variant of a {config.model_type} checkpoint:", config.demuxing_variant, allowed)
    return Checkpoint(name, config, _weights_file(name))


def _weights_file(name: str) -> Path:
    for file in FILES:
        found = cached_file(name, file, _raise_exceptions_for_missing_entries=False)
        if found is not None:
            return Path(found)
    raise FileNotFoundError(f"{name} has no weights: expected {' or '.join(FILES)}")


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Turn what a file of another kind raises into an error that names the file."""
    try:
        yield
    except (SafetensorError, RuntimeError, EOFError, ValueError, UnpicklingError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(f"{file} cannot be read as a file of weights only: {reason}") from error


def _names_in(file: Path) -> list[str]:
    with _reading(file):
        if file.suffix != ".safetensors":
            return list(_pickled(file))
        with safe_open(file, framework="pt") as weights:
            return list(weights.keys())


def _weights_in(file: Path) -> dict[str, Tensor]:
    with _reading(file):
        return load_file(file) if file.suffix == ".safetensors" else _pickled(file)


def _pickled(file: Path) -> dict[str, Tensor]:
    """The tensors of a file, whose numbers are read when they are used (`mmap`; files of old torch are read at once).

    Nothing in the file is executed: `weights_only` refuses everything but tensors.
    """
    weights: Any = torch.load(file, map_location="cpu", weights_only=True, mmap=is_zipfile(file))
    if not isinstance(weights, Mapping) or not all(isinstance(value, Tensor) for value in weights.values()):
        raise ValueError("it should hold named tensors only, and it holds something else")
    return dict(weights)


def _label_names(name: str, config: PreTrainedConfig) -> dict[int, str]:
    """The names in the configuration or, where it only counts the labels, those of the task it was trained on."""
    given: dict[int, str] = config.id2label
    if any(label != f"LABEL_{number}" for number, label in given.items()):
        return given
    in_name = re.search(r"(?:datamux-|muxbert_[a-z]+_)([a-z0-9]+)[-_]", name)
    task = getattr(config, "finetuning_task", None) or (in_name[1] if in_name else None)
    known = LABELS.get(task or "", ())
    return dict(enumerate(known)) if len(known) == len(given) else given
