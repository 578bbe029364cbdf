"""What is in each figure: its series, each a network and a way to train it, and the group sizes.

A series that ends in `_as_published` does what the published code does where that is a slip; beside it stands the
corrected one. Knows settings alone; running and drawing are elsewhere.
"""

from dataclasses import dataclass, replace
from typing import Literal

from datamux.errors import unknown_name
from datamux.reproduce.beaten import BEATEN
from datamux.reproduce.series import SIZES, Series
from datamux.train.image_networks import Backbone, ImageNetwork


@dataclass(frozen=True)
class Figure:
    name: str
    what: str
    series: tuple[Series, ...] = ()
    kind: Literal["trained", "pca", "speed", "picture"] = "trained"  # every series at every size with every seed

    def selected(self, series: list[str], sizes: list[int], epochs: int | None) -> list[Series]:
        """The series asked for (all, if none is), at the sizes and for the epochs asked for; each once."""
        names = [s.name for s in self.series]
        for name in series:
            if name not in names:
                raise unknown_name(f"series of {self.name}", name, names)
        for n in sizes:
            if not 1 <= n <= 16:
                raise ValueError(f"-n must be 1 to 16, got {n}")
        if self.kind == "picture" and len(set(sizes)) > 1:
            raise ValueError(f"{self.name} is of one group size: give -n once at most")
        chosen = [s for s in self.series if s.name in series or not series]
        if epochs is not None:
            chosen = [replace(s, protocol=replace(s.protocol, epochs=epochs)) for s in chosen]
        return [replace(s, sizes=tuple(dict.fromkeys(sizes)) or s.sizes) for s in chosen]


def _paper(backbone: Backbone, *multiplexers: str) -> tuple[Series, ...]:
    """The paper's networks and protocol, one series a multiplexer."""
    return tuple(Series(name, ImageNetwork(backbone, name), sizes=SIZES) for name in multiplexers)


# The paper's mixture, which looks like noise, and ours, in which digits can be seen; both as in the other figures.
PICTURE = (
    replace(_paper("mlp", "ortho")[0], name="mlp ortho (the paper's)", sizes=(4,)),
    *(replace(series, sizes=(4,)) for series in BEATEN if series.name == "cnn tiles"),
)

# What the corrected start of the nonlinear multiplexer changes, where it should show: with few images and with many.
NONLINEAR = Series("nonlinear", ImageNetwork("cnn", "nonlinear"), sizes=(2, 8))

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure("mnist-mlp", "the MLP: accuracy against N", _paper("mlp", "identity", "ortho", "low_rank")),
        Figure(
            "mnist-cnn",
            "the CNN: accuracy against N",
            (*_paper("cnn", "identity", "ortho", "low_rank", "nonlinear_as_published"), NONLINEAR),
        ),
        Figure(
            "mnist-cnn-kernels",
            "the CNN with multiplexers that keep neighbours together, as published and corrected",
            (
                *_paper(
                    "cnn",
                    "rotation_as_published",
                    "rotation",
                    "random_kernel",
                    "learned_kernel",
                    "mosaic_as_published",
                    "mosaic",
                    "nonlinear_as_published",
                    "nonlinear_4x_as_published",
                    "nonlinear_8x_as_published",
                ),
                NONLINEAR,
            ),
        ),
        Figure("mnist-pca", "the share of variance in 50 principal components: why 8 images should fit", kind="pca"),
        Figure("mnist-beaten", "the same networks, better multiplexers, demultiplexers and training", BEATEN),
        Figure("mnist-speed", "images a second against N, beside the accuracy", kind="speed"),
        Figure("mnist-picture", "N digits, their mixture, and the N answers, as a picture", PICTURE, kind="picture"),
    )
}


def get_figure(name: str) -> Figure:
    if name not in FIGURES:
        raise unknown_name("figure", name, FIGURES)
    return FIGURES[name]
