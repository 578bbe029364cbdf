"""The image experiments: the series of each, their networks and protocols, and the group sizes.

A series that ends in `_as_published` does what the published code does where that is a slip; beside it stands the
corrected one.

`OURS` do better than the paper's series with the same backbone, layer by layer and unit by unit. They differ in
what is kept of an image and where it is put (the multiplexer), in two layers per slot that read it (the demultiplexer),
in a readout without tanh, and in the training (loss, optimiser, schedule and batch together).
"ortho" and "nonlinear_8x" are the paper's multiplexers with everything else ours. Three more series with ortho at N = 8
have only some of our parts: beside the paper's own (mnist-mlp) they tell what the demultiplexer, the training and the
readout are worth. One series of each kind has every N; the others have the N that tell them apart. "identity" is the
backbone with our demultiplexer and readout and one image per pass.
"""

from dataclasses import replace

from datamux.reproduce.experiment import Experiment, Kind, Series
from datamux.vision.networks import Backbone, ImageNetwork
from datamux.vision.training import Protocol

TRAINING: dict[str, Protocol] = {
    backbone: Protocol(
        loss="cross_entropy",
        optimiser="adamw",
        rate=rate,
        schedule="cosine",
        weight_decay=1e-4,
        groups=128,
        steps=469,  # times 128 is 60,000 groups per epoch, for 15 epochs, as in the paper
    )
    for backbone, rate in (("mlp", 1e-3), ("cnn", 2e-3))
}
MIXED = (2, 4, 8, 16)
TWO_LAYERS = {"layers": 2, "hidden_dim": 64, "out_dim": 32, "activation": "gelu"}


def _ours(name: str, backbone: Backbone, multiplexer: str, sizes: tuple[int, ...]) -> Series:
    network = ImageNetwork(backbone, multiplexer, {}, TWO_LAYERS, tanh_readout=False)
    return Series(name, network, TRAINING[backbone], sizes)


OURS: tuple[Series, ...] = (
    _ours("mlp identity", "mlp", "identity", (1,)),
    # From the paper's ortho to ours, one part at a time.
    Series("mlp ortho, our demultiplexer", ImageNetwork("mlp", "ortho", {}, TWO_LAYERS), sizes=(8,)),
    Series("mlp ortho, our training", ImageNetwork("mlp", "ortho"), TRAINING["mlp"], (8,)),
    Series(
        "mlp ortho, our training and readout", ImageNetwork("mlp", "ortho", tanh_readout=False), TRAINING["mlp"], (8,)
    ),
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


def _paper(backbone: Backbone, *multiplexers: str) -> tuple[Series, ...]:
    """The paper's networks and protocol, one series per multiplexer."""
    return tuple(Series(name, ImageNetwork(backbone, name)) for name in multiplexers)


# The paper's mixture, which looks like noise, and ours, in which digits can be seen; both as in the other figures.
PICTURE = (
    replace(_paper("mlp", "ortho")[0], name="mlp ortho (the paper's)", sizes=(4,)),
    *(replace(series, sizes=(4,)) for series in OURS if series.name == "cnn tiles"),
)

# What the corrected start of the nonlinear multiplexer changes, where it should show: with few images and with many.
NONLINEAR = Series("nonlinear", ImageNetwork("cnn", "nonlinear"), sizes=(2, 8))


def _mnist(name: str, about: str, series: tuple[Series, ...] = (), kind: Kind = "images") -> Experiment:
    seeds = (0, 1, 2) if kind == "images" else (0,)
    return Experiment("mnist", name, kind, family="images", seeds=seeds, series=series, about=about)


KERNELS = (
    *("rotation_as_published", "rotation", "random_kernel", "learned_kernel", "mosaic_as_published", "mosaic"),
    *("nonlinear_as_published", "nonlinear_4x_as_published", "nonlinear_8x_as_published"),
)
MNIST = (
    _mnist("mnist-mlp", "the MLP: accuracy against N", _paper("mlp", "identity", "ortho", "low_rank")),
    _mnist(
        "mnist-cnn",
        "the CNN: accuracy against N",
        (*_paper("cnn", "identity", "ortho", "low_rank", "nonlinear_as_published"), NONLINEAR),
    ),
    _mnist(
        "mnist-cnn-kernels",
        "the CNN with multiplexers that keep neighbours together, as published and corrected",
        (*_paper("cnn", *KERNELS), NONLINEAR),
    ),
    _mnist("mnist-pca", "the share of variance in 50 principal components: why 8 images should fit", kind="pca"),
    _mnist("mnist-ours", "the same networks, better multiplexers, demultiplexers and training", OURS),
    _mnist("mnist-speed", "images per second against N, beside the accuracy", kind="image speed"),
    _mnist("mnist-picture", "N digits, their mixture, and the N answers, as a picture", PICTURE, kind="picture"),
    _mnist("torch-again", "runs that removed C++ code had trained, again in torch", kind="torch again"),
)
