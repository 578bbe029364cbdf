"""The weights of a published checkpoint under our names, and what their names say about it."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from datamux.hub.published.models import PublishedModel

logger = logging.getLogger(__name__)
BUFFERS = ("pooler.", "embeddings.position_ids", "embeddings.token_type_ids")  # of the encoder; nothing uses them
TRUNK = ("demux_module.", "demultiplexer.demux_module.", "retrieval_head.demux_module.")  # one module, three names
TAGGING = ("ner", "pos", "chunk")
SHOWN = 5  # names in an error


def find_task(name: str, config: PreTrainedConfig, weights: Collection[str]) -> str:
    """What a checkpoint was trained for: "sequence-classification", "token-classification" or "retrieval".

    `weights` are the names of its weights.
    """
    retrieves = any(name.startswith("retrieval_head.decoder.") for name in weights)
    if retrieves and getattr(config, "task_loss_coeff", 1) == 0:
        return "retrieval"
    if "classifier.weight" in weights and config.demuxing_variant == "index_pos":
        return "token-classification" if _names_tags(name, config) else "sequence-classification"
    if "demultiplexer.decoder.weight" in weights:
        return "token-classification"
    if "demultiplexer.out_proj.weight" in weights:
        # With MLP demultiplexing, sentence and token models have the same weights.
        tags = config.demuxing_variant == "mlp" and _names_tags(name, config)
        return "token-classification" if tags else "sequence-classification"
    if retrieves:
        return "retrieval"
    raise ValueError(
        f"{name} is not a published DataMUX checkpoint: one of the weights demultiplexer.out_proj, "
        f"demultiplexer.decoder, classifier and retrieval_head.decoder was expected; found {_some(weights)}"
    )


def _names_tags(name: str, config: PreTrainedConfig) -> bool:
    """Whether the configuration speaks of tags: in its task, or its labels. Where both are silent, its class decides.

    The class is a guess, and says so: some files name a class that is not theirs.
    """
    task = getattr(config, "finetuning_task", None)
    if task is not None:
        return task in TAGGING
    labels = config.id2label.values()
    if any(label != f"LABEL_{number}" for number, label in enumerate(labels)):
        return any(label.startswith(("B-", "I-")) for label in labels)
    classes = config.architectures or []
    tags = any("TokenClassification" in architecture for architecture in classes)
    logger.warning(
        "%s does not say in finetuning_task or its labels whether it is for sentences or tokens; from its class (%s) "
        "it is taken to be for %s. If that is wrong, give load_published() the task",
        name,
        ", ".join(classes) or "none",
        "tokens" if tags else "sentences",
    )
    return tags


def our_weights(name: str, weights: Mapping[str, Tensor], model: PublishedModel, task: str) -> dict[str, Tensor]:
    """All weights of `model`, taken from a checkpoint. A weight that is missing, left over or misshapen is an error."""
    taken = _Taken(name, weights)
    encoder = f"{model.backbone.encoder.config.model_type}."
    found = {f"mux.backbone.encoder.{ours}": taken(encoder + ours) for ours in model.backbone.encoder.state_dict()}
    found["mux.multiplexer.keys"] = _keys(taken("instance_embedding"))
    if model.config.multiplexer == "published_contextual":
        found |= _attention_layer(taken, "muxing_attention", "mux.multiplexer.attend_tokens")
        found |= _attention_layer(taken, "muxing_attention_2", "mux.multiplexer.attend_slots")
    take_parts = _mux_plm_parts if model.config.demultiplexer == "published_key" else _datamux_parts
    found |= take_parts(taken, model, task)
    unused = [encoder + name for name in BUFFERS]
    unused += ["demultiplexer."] if task == "retrieval" else ["retrieval_head."]
    if take_parts is _mux_plm_parts:
        unused += [*TRUNK, *(["classifier."] if task == "retrieval" else [])]
    taken.check_all_used(tuple(unused))
    _check_shapes(name, found, model.state_dict())
    return found


def _datamux_parts(taken: "_Taken", model: PublishedModel, task: str) -> dict[str, Tensor]:
    """Demultiplexer and head of a DataMUX checkpoint. Retrieval has its own demultiplexer in its head."""
    index = model.config.uses_prefix
    source = "retrieval_head." if task == "retrieval" else "demultiplexer."
    split = _split_dense if index else _stack_slots
    parts = split(taken, source, model.config.num_instances)
    found = {f"mux.demultiplexer.{ours}": value for ours, value in parts.items()}
    if task == "retrieval":
        decoder = {"retrieval.decoder.weight": taken(f"{source}decoder.weight"), "retrieval.bias": taken.bias(source)}
        layers = {} if index else {"retrieval.before": "dense_pre_vocab", "retrieval.norm": "layer_norm_pre_vocab"}
    elif task == "token-classification" and index:
        decoder = {"mux.head.out.weight": taken(f"{source}decoder.weight"), "mux.head.out.bias": taken.bias(source)}
        layers = {}
    else:
        decoder = {}
        layers = {"mux.head.dense": "dense_before_out_proj", "mux.head.out": "out_proj"}
        layers |= {} if index else {"mux.head.norm": "layernorm_presoftmax"}
    return found | decoder | taken.layers({ours: source + published for ours, published in layers.items()})


def _mux_plm_parts(taken: "_Taken", model: PublishedModel, task: str) -> dict[str, Tensor]:
    """Demultiplexer and head of a MUX-PLM checkpoint: a trunk for all tasks, and a last layer for each."""
    source = "retrieval_head." if task == "retrieval" else "demultiplexer."
    demultiplexer: Any = model.mux.demultiplexer
    both = taken.trunk("dense_1.weight")  # d 2d
    half = both.shape[-1] // 2
    found = {
        "keys": taken.trunk("demux_instance_embedding"),
        "from_slot.weight": both[:, :half],
        "from_state.weight": both[:, half:],
        "from_state.bias": taken.trunk("dense_1.bias"),
    }
    for end in ("weight", "bias"):
        found |= {f"more.{i}.{end}": taken.trunk(f"dense_{i + 2}.{end}") for i in range(len(demultiplexer.more))}
        found |= {f"norms.{i}.{end}": taken.trunk(f"layer_norm_{i + 1}.{end}") for i in range(len(demultiplexer.norms))}
    layers = {"out": f"{source}pre_decoder", "norm": f"{source}pre_decoder_layer_norm"}
    found = {f"mux.demultiplexer.{ours}": value for ours, value in (found | taken.layers(layers)).items()}
    if task != "retrieval":
        return found | taken.layers({"mux.head.out": "classifier"})
    tied = f"{model.backbone.encoder.config.model_type}.embeddings.word_embeddings.weight"
    decoder = taken.first("retrieval_head.decoder.weight", tied)
    return found | {"retrieval.decoder.weight": decoder, "retrieval.bias": taken.bias(source)}


def _attention_layer(taken: "_Taken", theirs: str, ours: str) -> dict[str, Tensor]:
    """One Transformer layer, as in an encoder; ours has query, key and value in one matrix."""
    parts = ("query", "key", "value")
    ends = ("weight", "bias")
    found = {f"{ours}.qkv.{e}": torch.cat([taken(f"{theirs}.attention.self.{p}.{e}") for p in parts]) for e in ends}
    names = {"out": "attention.output.dense", "norm": "attention.output.LayerNorm"}
    names |= {"up": "intermediate.dense", "down": "output.dense", "norm_out": "output.LayerNorm"}
    return found | taken.layers({f"{ours}.{name}": f"{theirs}.{published}" for name, published in names.items()})


class _Taken:
    """Hands out weights by their published names, and keeps count."""

    def __init__(self, name: str, weights: Mapping[str, Tensor]) -> None:
        self.name = name
        self.weights = weights
        self.used: set[str] = set()
        self.missing: list[str] = []

    def __call__(self, name: str) -> Tensor:
        if name not in self.weights:
            self.missing.append(name)
            return torch.empty(0, 0, 0)
        self.used.add(name)
        return self.weights[name].float()

    def first(self, *names: str) -> Tensor:
        """The weight under the first of these names that is there; all of them mean the same."""
        there = [name for name in names if name in self.weights]
        self.used |= set(there)
        return self(there[0] if there else names[0])

    def bias(self, source: str) -> Tensor:
        """The bias of a decoder."""
        return self.first(f"{source}bias", f"{source}decoder.bias")

    def trunk(self, name: str) -> Tensor:
        """A weight of MUX-PLM's shared trunk."""
        return self.first(*(module + name for module in TRUNK))

    def layers(self, names: Mapping[str, str]) -> dict[str, Tensor]:
        """Weight and bias of whole layers: our name -> the published one."""
        ends = ("weight", "bias")
        return {f"{ours}.{end}": self(f"{published}.{end}") for ours, published in names.items() for end in ends}

    def check_all_used(self, unused: tuple[str, ...]) -> None:
        """Raise if a weight is missing, or left over and not among those that begin with one of `unused`."""
        if self.missing:
            raise ValueError(
                f"{self.name} lacks weights that a published checkpoint has: {_some(self.missing)}; "
                f"found {_some(self.weights.keys() - self.used or self.weights)}"
            )
        left = [name for name in self.weights if name not in self.used and not name.startswith(unused)]
        if left:
            raise ValueError(f"{self.name} has weights that no published checkpoint has: {_some(left)}")


def _keys(published: Tensor) -> Tensor:
    """(n d) as they are; matrices (n d d) multiply from the left there, and from the right here."""
    return published.mT.contiguous() if published.dim() == 3 else published


def _split_dense(taken: _Taken, source: str, slots: int) -> dict[str, Tensor]:
    """W of W [p_i; h], cut in two."""
    both = taken(f"{source}dense.weight")  # d 2d
    half = both.shape[-1] // 2
    return {
        "from_slot.weight": both[:, :half],
        "from_state.weight": both[:, half:],
        "from_state.bias": taken(f"{source}dense.bias"),
        "norm.weight": taken(f"{source}layer_norm.weight"),
        "norm.bias": taken(f"{source}layer_norm.bias"),
    }


def _stack_slots(taken: _Taken, source: str, slots: int) -> dict[str, Tensor]:
    """One layer per slot, as one tensor."""

    def stacked(kind: str) -> Tensor:
        tensors = [taken(f"{source}demux_module.{kind.format(slot)}") for slot in range(slots)]
        same = len({tensor.shape for tensor in tensors}) == 1
        return torch.stack(tensors) if same else torch.empty(0, 0, 0)

    return {
        "weight_in": stacked("dense_{}.weight").mT,
        "bias_in": stacked("dense_{}.bias"),
        "norm_weight": stacked("layer_norm_{}.weight"),
        "norm_bias": stacked("layer_norm_{}.bias"),
    }


def _check_shapes(name: str, found: Mapping[str, Tensor], ours: Mapping[str, Any]) -> None:
    wrong = [
        f"{key} should be {tuple(ours[key].shape)} and is {tuple(value.shape)}"
        for key, value in found.items()
        if value.shape != ours[key].shape
    ]
    if wrong:
        raise ValueError(
            f"the weights of {name} do not fit its configuration (num_instances, hidden_size, num_labels): "
            f"{'; '.join(wrong[:SHOWN])}"
        )


def _some(names: Any) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return (", ".join(listed[:SHOWN]) or "nothing") + more
