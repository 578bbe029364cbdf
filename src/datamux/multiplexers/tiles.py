"""Each image is shrunk by a small network to a few maps of a tile's size, and put into a tile of its own.

    phi_i(x) = place_i(W2 * shrink(tanh(W1 * x)))        W1: 16 kernels of 5x5, stride 2; W2: c kernels of 3x3

As the mosaic, but what is kept of an image is learned. Two layers, as in the paper's `nonlinear`, but the first has
larger kernels and a step of two pixels, and no tanh is after the second. All slots share them: it is the place that
tells a slot, so every image teaches every slot. `maps` makes the mixture wider than one image.
"""

import functools

import torch
from torch import Tensor
from torch.nn import functional as F

from datamux.multiplexers.base import Scale
from datamux.multiplexers.images import ImageMultiplexer, quick_tanh, tiles_a_row
from datamux.native.layer import blocked, fits, layer, unblocked
from datamux.native.shrink import shrink_blocked
from datamux.seeded import layer_start


class Tiles(ImageMultiplexer):
    """`native`: the convolutions are those of `datamux.native`."""

    native = False
    first: Tensor  # 16 1 5 5
    first_bias: Tensor  # 16
    second: Tensor  # c 16 3 3
    second_bias: Tensor  # c

    def __init__(
        self, num_instances: int, dim: int, *, maps: int = 1, kernels: int = 16, scale: Scale = "sum", seed: int = 0
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self.maps = maps
        self.kernels = kernels
        self.tiles = tiles_a_row(num_instances)
        self.tile = self.side // self.tiles
        if self.tile < 1:
            raise ValueError(f"{num_instances} tiles do not fit into {self.side}x{self.side} pixels")
        self._register_state(learned=True)

    def initial_state(self) -> dict[str, Tensor]:
        generator, k = self.generator(), self.kernels
        return {
            "first": layer_start(k, 1, 5, 5, inputs=25, generator=generator),
            "first_bias": layer_start(k, inputs=25, generator=generator),
            "second": layer_start(self.maps, k, 3, 3, inputs=9 * k, generator=generator),
            "second_bias": layer_start(self.maps, inputs=9 * k, generator=generator),
        }

    def mix_images(self, images: Tensor, used: Tensor | None) -> Tensor:
        b, k = images.shape[:2]
        t, size = self.tiles, self.tile
        a = self.small(images.flatten(0, 1).unsqueeze(1)).view(b, k, self.maps, size, size)
        if used is not None:
            a = a * used[:, :, None, None, None]
        spare = torch.zeros(b, t * t - k, *a.shape[2:], dtype=a.dtype, device=a.device)
        tiles = torch.cat([a, spare], 1).view(b, t, t, self.maps, size, size)
        whole = tiles.permute(0, 3, 1, 4, 2, 5).reshape(b, self.maps, t * size, t * size)
        edge = self.side - t * size
        return F.pad(whole, (0, edge, 0, edge))

    def small(self, images: Tensor) -> Tensor:
        """(i 1 side side) -> (i c tile tile)."""
        if self.native and fits(images):
            a = layer(blocked(images), self.first, self.first_bias, padding=2, stride=2)
            a = shrink_blocked(a, self.tile)
            return unblocked(layer(a, self.second, self.second_bias, padding=1, squash=False))
        a = quick_tanh(F.conv2d(images, self.first, self.first_bias, stride=2, padding=2))
        return F.conv2d(shrink(a, self.tile), self.second, self.second_bias, padding=1)


def shrink(images: Tensor, size: int) -> Tensor:
    """`adaptive_avg_pool2d` of square images as one product of matrices: a third of the time, there and back."""
    *rest, side, _ = images.shape
    if side == size:
        return images
    return (images.flatten(-2) @ _weights(side, size).to(images)).view(*rest, size, size)


@functools.cache
def _weights(side: int, size: int) -> Tensor:
    """(side*side size*size), of each pixel in each of the means."""
    with torch.inference_mode(False), torch.device("cpu"):  # whoever asks first: it is kept for all
        pixels = torch.eye(side * side).view(-1, 1, side, side)
        return F.adaptive_avg_pool2d(pixels, size).flatten(1)
