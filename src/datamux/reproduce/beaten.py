"""Series that do better than the paper's with the same backbone, layer by layer and unit by unit.

What differs from the paper: what is kept of an image and where it is put (the multiplexer), two layers a slot to read
it (the demultiplexer), a readout without tanh, and the training (loss, optimiser, schedule and batch together).
"ortho" and "nonlinear_8x" are the paper's multiplexers with the rest ours; three more series with ortho at N = 8 have
only a part of it, beside the paper's own (mnist-mlp): they tell what the demultiplexer, the training and the readout
are worth. One of each kind has every N, the others those that tell them apart. "identity" is the backbone with
our demultiplexer and readout, one image a pass.
"""

from datamux.reproduce.series import Series
from datamux.train.image_networks import Backbone, ImageNetwork
from datamux.train.images import Protocol

OURS: dict[str, Protocol] = {
    backbone: Protocol(
        loss="cross_entropy",
        optimiser="adamw",
        rate=rate,
        schedule="cosine",
        weight_decay=1e-4,
        groups=128,
        steps=469,  # times 128 is 60,000 groups an epoch for 15 epochs, as in the paper
    )
    for backbone, rate in (("mlp", 1e-3), ("cnn", 2e-3))
}
MIXED = (2, 4, 8, 16)
TWO_LAYERS = {"layers": 2, "hidden_dim": 64, "out_dim": 32, "activation": "gelu"}


def _ours(name: str, backbone: Backbone, multiplexer: str, sizes: tuple[int, ...]) -> Series:
    network = ImageNetwork(backbone, multiplexer, {}, TWO_LAYERS, tanh_readout=False)
    return Series(name, network, OURS[backbone], sizes)


BEATEN: tuple[Series, ...] = (
    _ours("mlp identity", "mlp", "identity", (1,)),
    # From the paper's ortho to ours, a part at a time.
    Series("mlp ortho, our demultiplexer", ImageNetwork("mlp", "ortho", {}, TWO_LAYERS), sizes=(8,)),
    Series("mlp ortho, our training", ImageNetwork("mlp", "ortho"), OURS["mlp"], (8,)),
    Series("mlp ortho, our training and readout", ImageNetwork("mlp", "ortho", tanh_readout=False), OURS["mlp"], (8,)),
    _ours("mlp ortho", "mlp", "ortho", (8, 16)),
    _ours("mlp learned_ortho", "mlp", "learned_ortho", (8, 16)),
    _ours("mlp principal", "mlp", "principal", (8, 16)),
    _ours("mlp learned_principal", "mlp", "learned_principal", MIXED),
    # The CNN, its mixture no larger than one image.
    _ours("cnn identity", "cnn", "identity", (1,)),
    _ours("cnn ortho", "cnn", "ortho", (4, 8)),
    _ours("cnn learned_mosaic", "cnn", "learned_mosaic", MIXED),
    _ours("cnn tiles", "cnn", "tiles", (4, 8)),
    # Mixtures of eight maps.
    _ours("cnn tiles_8x", "cnn", "tiles_8x", MIXED),
    _ours("cnn nonlinear_8x", "cnn", "nonlinear_8x", (8,)),
)
