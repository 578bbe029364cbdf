"""Each image is shrunk by a small network to a few maps of a tile's size, and put into a tile of its own.

    phi_i(x) = place_i(W2 * shrink(tanh(W1 * x)))        W1: 16 kernels of 5x5, stride 2; W2: c kernels of 3x3

As the mosaic, but what is kept of an image is learned, as in the paper's `nonlinear`, and of the same two layers. All
slots share the two layers: it is the place that tells a slot, so every image teaches every slot. `maps` makes the
mixture wider than one image.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from datamux.multiplexers.base import Scale
from datamux.multiplexers.images import ImageMultiplexer, quick_tanh
from datamux.seeded import layer_start


class Tiles(ImageMultiplexer):
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
        self.tiles = math.isqrt(num_instances - 1) + 1  # a row
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
        a = F.conv2d(images.flatten(0, 1).unsqueeze(1), self.first, self.first_bias, stride=2, padding=2)
        a = shrink(quick_tanh(a), size)
        a = F.conv2d(a, self.second, self.second_bias, padding=1)
        a = a.view(b, k, self.maps, size, size)
        if used is not None:
            a = a * used[:, :, None, None, None]
        spare = torch.zeros(b, t * t - k, *a.shape[2:], dtype=a.dtype, device=a.device)
        tiles = torch.cat([a, spare], 1).view(b, t, t, self.maps, size, size)
        whole = tiles.permute(0, 3, 1, 4, 2, 5).reshape(b, self.maps, t * size, t * size)
        edge = self.side - t * size
        return F.pad(whole, (0, edge, 0, edge))


def shrink(images: Tensor, size: int) -> Tensor:
    """`adaptive_avg_pool2d` of square images as one product of matrices: a third of the time, there and back."""
    *rest, side, _ = images.shape
    if side == size:
        return images
    pixels = torch.eye(side * side, dtype=images.dtype, device=images.device).view(-1, 1, side, side)
    weights = F.adaptive_avg_pool2d(pixels, size).flatten(1)  # of each pixel in each of the means
    return (images.flatten(-2) @ weights).view(*rest, size, size)
