"""Multiplexers for square images, one method per file. A new one is one file and one line in `IMAGE_MULTIPLEXERS`."""

from collections.abc import Callable
from functools import partial

from datamux.multiplexers.base import Multiplexer
from datamux.multiplexers.for_images.kernel import Kernel
from datamux.multiplexers.for_images.mosaic import Mosaic
from datamux.multiplexers.for_images.nonlinear import Nonlinear
from datamux.multiplexers.for_images.principal import Principal
from datamux.multiplexers.for_images.rotation import Rotation
from datamux.multiplexers.for_images.tiles import Tiles

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

__all__ = ["IMAGE_MULTIPLEXERS"]
