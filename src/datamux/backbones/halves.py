"""Cut an encoder in two after some of its layers. Both halves are views: they share the encoder's own modules.

The lower half embeds and runs the first layers; the upper half takes hidden states where word vectors were and runs the
rest. Which attribute holds the layers differs between families; only those below are known.
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
    """Kept outside of the module tree, so that shared weights are saved once."""

    lower: nn.Module
    upper: nn.Module


class AsTheyAre(nn.Module):
    """Stands in for the embedding block of the upper half: hidden states come as `inputs_embeds`."""

    def forward(self, *args: Any, inputs_embeds: Tensor | None = None, **kwargs: Any) -> Tensor:
        given = inputs_embeds if inputs_embeds is not None else next(a for a in reversed(args) if a is not None)
        assert isinstance(given, Tensor)
        return given


def split_at_layer(encoder: PreTrainedModel, layer: int) -> Halves:
    """The two halves of `encoder`, cut after `layer` layers."""
    family = encoder.config.model_type
    if family not in LAYERS:
        raise ValueError(
            f"mux_layer is not available for {family!r}: its layers cannot be reached; allowed: "
            f"{', '.join(LAYERS)} (or mux_layer=0, which works with any encoder)"
        )
    holder, name = LAYERS[family].split(".")
    layers = getattr(getattr(encoder, holder), name)
    if not 0 < layer < len(layers):
        raise ValueError(
            f"mux_layer must be 0 to {len(layers) - 1} for an encoder of {len(layers)} layers, got {layer}"
        )
    lower = _with(encoder, **{holder: _with(getattr(encoder, holder), **{name: layers[:layer]})})
    upper = _with(encoder, **{holder: _with(getattr(encoder, holder), **{name: layers[layer:]})})
    upper = _with(upper, embeddings=AsTheyAre())
    if hasattr(encoder, "embeddings_project"):
        upper = _with(upper, embeddings_project=nn.Identity())
    return Halves(lower, upper)


def _with(module: nn.Module, **children: nn.Module) -> nn.Module:
    """A shallow copy of `module` with some children replaced; everything else is shared."""
    view = copy.copy(module)
    view._modules = {**module._modules, **children}
    return view
