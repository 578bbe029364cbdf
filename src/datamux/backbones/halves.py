"""Cut an encoder in two after some of its layers. Both halves are views: they share the encoder's own modules.

The lower half embeds and runs the first layers. The upper half takes hidden states in place of word vectors and runs
the remaining layers. Which attribute holds the layers differs between families; `LAYERS` has the families we know.
"""

import copy
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

LAYERS = {
    "bert": "encoder.layer",
    "roberta": "encoder.layer",
    "xlm-roberta": "encoder.layer",
    "electra": "encoder.layer",
    "distilbert": "transformer.layer",
}


@dataclass(frozen=True)
class Halves:
    """The two halves of an encoder. This is not a module, so that the weights they share are saved only once."""

    lower: nn.Module
    upper: nn.Module


class AsTheyAre(nn.Module):
    """Takes the place of the upper half's embedding block: passes on hidden states, which come as `inputs_embeds`."""

    def forward(self, *args: Any, inputs_embeds: Tensor | None = None, **kwargs: Any) -> Tensor:
        given = inputs_embeds if inputs_embeds is not None else next(a for a in reversed(args) if a is not None)
        assert isinstance(given, Tensor)
        return given


def split_at_layer(encoder: PreTrainedModel, layer: int) -> Halves:
    """The two halves of `encoder`, cut after `layer` layers."""
    family = encoder.config.model_type
    if family not in LAYERS:
        raise ValueError(
            f"mux_layer is not available for {family!r}, because datamux does not know where its layers are; allowed: "
            f"{', '.join(LAYERS)} (or mux_layer=0, which works with any encoder)"
        )
    layers = _layers(encoder)
    check_layer(layer, len(layers))
    return Halves(_with_layers(encoder, layers[:layer]), _above(encoder, layers[layer:]))


def check_layer(layer: int, layers: int) -> None:
    """Raise if an encoder of so many layers cannot be cut after `layer` layers."""
    if not 0 < layer < layers:
        raise ValueError(f"mux_layer must be 0 to {layers - 1} for an encoder of {layers} layers, got {layer}")


def without_layers(classifier: PreTrainedModel) -> nn.Module:
    """A view of a classifier that has only its head: it takes last hidden states, as `inputs_embeds`."""
    encoder = classifier.base_model
    family = encoder.config.model_type
    if family not in LAYERS:
        raise ValueError(
            f"the head of a {family!r} classifier cannot be used by itself, because datamux does not know where the "
            f"layers are; allowed: {', '.join(LAYERS)}"
        )
    return replace_children(classifier, **{classifier.base_model_prefix: _above(encoder, _layers(encoder)[:0])})


def _layers(encoder: PreTrainedModel) -> nn.ModuleList:
    layers = encoder.get_submodule(LAYERS[encoder.config.model_type])
    assert isinstance(layers, nn.ModuleList)
    return layers


def _with_layers(encoder: PreTrainedModel, layers: nn.Module) -> nn.Module:
    holder, name = LAYERS[encoder.config.model_type].split(".")
    return replace_children(encoder, **{holder: replace_children(encoder.get_submodule(holder), **{name: layers})})


def _above(encoder: PreTrainedModel, layers: nn.Module) -> nn.Module:
    """The encoder with these layers, and hidden states in place of word vectors."""
    upper = replace_children(_with_layers(encoder, layers), embeddings=AsTheyAre())
    if hasattr(encoder, "embeddings_project"):
        upper = replace_children(upper, embeddings_project=nn.Identity())
    return upper


def replace_children(module: nn.Module, **children: nn.Module) -> nn.Module:
    """A shallow copy of `module` with some children replaced; everything else is shared."""
    view = copy.copy(module)
    view._modules = {**module._modules, **children}
    return view
