"""Multiplexers, one family a file. A new one is one file and one line in `MULTIPLEXERS`."""

from collections.abc import Callable
from functools import partial

from datamux.multiplexers.base import Multiplexer
from datamux.multiplexers.contextual import Contextual
from datamux.multiplexers.hadamard import Hadamard
from datamux.multiplexers.identity import Identity
from datamux.multiplexers.images import Kernel, Mosaic, Nonlinear, Rotation
from datamux.multiplexers.low_rank import LowRank
from datamux.multiplexers.ortho import Ortho
from datamux.multiplexers.principal import Principal
from datamux.multiplexers.tiles import Tiles
from datamux.registry import build

MULTIPLEXERS: dict[str, Callable[..., Multiplexer]] = {
    "identity": Identity,
    "gaussian_hadamard": Hadamard,
    "learned_hadamard": partial(Hadamard, learned=True),
    "binary": partial(Hadamard, kind="binary"),
    "sign": partial(Hadamard, kind="sign"),
    "ortho": Ortho,
    "learned_ortho": partial(Ortho, learned=True),
    "low_rank": LowRank,
    "contextual": Contextual,
}

# These see neighbouring pixels, so they take square images only: rows (b n side*side).
IMAGE_MULTIPLEXERS: dict[str, Callable[..., Multiplexer]] = {
    "rotation": Rotation,
    "rotation_as_published": partial(Rotation, published=True),
    "random_kernel": Kernel,
    "learned_kernel": partial(Kernel, learned=True),
    "nonlinear": Nonlinear,
    "nonlinear_4x": partial(Nonlinear, maps=4),
    "nonlinear_8x": partial(Nonlinear, maps=8),
    "nonlinear_as_published": partial(Nonlinear, published=True),
    "nonlinear_4x_as_published": partial(Nonlinear, maps=4, published=True),
    "nonlinear_8x_as_published": partial(Nonlinear, maps=8, published=True),
    "mosaic": Mosaic,
    "mosaic_as_published": partial(Mosaic, published=True),
    "learned_mosaic": partial(Mosaic, learned=True),
    "tiles": Tiles,
    "tiles_8x": partial(Tiles, maps=8),
    "principal": Principal,
    "learned_principal": partial(Principal, learned=True),
}


def build_multiplexer(name: str, num_instances: int, dim: int, **options: object) -> Multiplexer:
    """The multiplexer called `name`; `options` go to its class."""
    known = MULTIPLEXERS | IMAGE_MULTIPLEXERS
    return build("multiplexer", known, name, num_instances=num_instances, dim=dim, **options)


__all__ = ["IMAGE_MULTIPLEXERS", "MULTIPLEXERS", "Multiplexer", "build_multiplexer"]
