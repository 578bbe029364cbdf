"""Series that do better than the paper's with the same backbone, layer by layer and unit by unit.

What differs from the paper: what is kept of an image and where it is put (the multiplexer, linear in each of these
series), two layers a slot to read it (the demultiplexer), and the training. The series "ortho" has the paper's
multiplexer with our demultiplexer and training, so that one can tell what each change is worth.
"""

from collections.abc import Mapping
from typing import Any

from datamux.reproduce.series import SIZES, Series
from datamux.train.image_networks import Backbone, ImageNetwork
from datamux.train.images import Protocol

OURS = Protocol(
    loss="cross_entropy", optimiser="adamw", rate=2e-3, schedule="cosine", weight_decay=1e-4, averaging=0.999
)
TWO_LAYERS = {"layers": 2, "hidden_dim": 64, "out_dim": 32, "activation": "gelu"}


def _ours(
    name: str, backbone: Backbone, multiplexer: str, sizes: tuple[int, ...] = SIZES, **options: Mapping[str, Any]
) -> Series:
    network = ImageNetwork(backbone, multiplexer, options, TWO_LAYERS, tanh_readout=False)
    return Series(name, network, OURS, sizes)


BEATEN: tuple[Series, ...] = (
    _ours("mlp ortho", "mlp", "ortho"),
    _ours("mlp principal", "mlp", "principal"),
    _ours("mlp learned_principal", "mlp", "learned_principal"),
    _ours("cnn ortho", "cnn", "ortho"),
    _ours("cnn mosaic", "cnn", "mosaic"),
    _ours("cnn learned_mosaic", "cnn", "learned_mosaic"),
)
