"""Each image is shrunk by a small learned network that all slots share, and placed in its own tile.

    phi_i(x) = place_i(shrink(tanh(x * V + a)) * W + b)        V: 16 kernels of 5x5, stride 2; W: c kernels of 16x3x3

The mixture has c maps (`maps`). Only its tile tells a slot apart, so every image teaches the network of every slot.

Differs from the paper: this method is ours. It places images as the paper's mosaic does, but learns what to keep of an
image. It has two layers as the paper's `nonlinear`, but its first layer has larger kernels and steps by two pixels,
and no tanh follows the second.
"""

import functools

import torch
from torch import Tensor
from torch.nn import functional as F

from datamux.multiplexers.base import Scale
from datamux.multiplexers.for_images.base import ImageMultiplexer, tiles_per_row
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
        self.tiles = tiles_per_row(num_instances)
        self.tile = self.side // self.tiles
        if self.tile < 1:
            raise ValueError(
                f"num_instances must be at most {dim}, one per pixel, for images of {self.side}x{self.side} pixels; "
                f"got {num_instances}"
            )
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
        small = self.shrink_images(images.flatten(0, 1).unsqueeze(1)).view(b, k, self.maps, size, size)
        if used is not None:
            small = small * used[:, :, None, None, None]
        empty = torch.zeros(b, t * t - k, *small.shape[2:], dtype=small.dtype, device=small.device)
        tiles = torch.cat([small, empty], 1).view(b, t, t, self.maps, size, size)
        mosaic = tiles.permute(0, 3, 1, 4, 2, 5).reshape(b, self.maps, t * size, t * size)
        edge = self.side - t * size
        return F.pad(mosaic, (0, edge, 0, edge))

    def shrink_images(self, images: Tensor) -> Tensor:
        """(i 1 side side) -> (i c tile tile)."""
        a = F.conv2d(images, self.first, self.first_bias, stride=2, padding=2).tanh()
        return F.conv2d(shrink(a, self.tile), self.second, self.second_bias, padding=1)


def shrink(images: Tensor, size: int) -> Tensor:
    """`adaptive_avg_pool2d` of square images as one matrix product, which takes a third of the time."""
    *rest, side, _ = images.shape
    if side == size:
        return images
    return (images.flatten(-2) @ _weights(side, size).to(images)).view(*rest, size, size)


@functools.cache
def _weights(side: int, size: int) -> Tensor:
    """(side*side size*size): the weight of each pixel in each mean."""
    # The result is cached for every later caller, so it must not depend on the mode or device of the first one.
    with torch.inference_mode(False), torch.device("cpu"):
        pixels = torch.eye(side * side).view(-1, 1, side, side)
        return F.adaptive_avg_pool2d(pixels, size).flatten(1)
