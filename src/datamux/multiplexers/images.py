"""For images, given as rows of pixels: (b n d) with d = side x side -> (b c d), c maps of the same size.

    rotation        slot i turns its image by i / n of a full circle
    kernel          slot i slides its own 3x3 kernel over it; random, or learned
    nonlinear       slot i has two convolutions of its own, 16 maps between, tanh after both; 1, 4 or 8 maps come out
    mosaic          slot i shrinks its image and puts it into its own tile

Paper: appendix "Other multiplexing strategies for CNNs". `published=True` does what the published notebook does:
    rotation        scales image i by (1 - 2i), so that later images drown earlier ones
    mosaic          keeps the first image of each four, every fourth row of it, and loses the rest by an indexing slip
    nonlinear       has no biases and starts from N(0, 1), so that the second tanh is saturated from the start

Differs from the paper: a rotated image is interpolated by bicubic weights, not by splines.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from datamux.multiplexers.base import Multiplexer, Scale, mix_by_matrices
from datamux.native.layer import blocked, fits, layer, unblocked
from datamux.native.nonlinear import nonlinear
from datamux.seeded import gaussian, layer_start


class ImageMultiplexer(Multiplexer):
    """Base class. A subclass writes `mix_images`: (b n side side) -> (b c side side).

    `used` (b n) is False where a slot is empty. Its image is zero already, which is enough for a linear map.
    """

    maps: int = 1  # that a mixture has

    def __init__(self, num_instances: int, dim: int, *, scale: Scale = "sum", seed: int = 0) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self.side = math.isqrt(dim)
        if self.side**2 != dim:
            raise ValueError(f"images must be square: dim must be a square number, got {dim}")

    @property
    def out_dim(self) -> int:
        """How many numbers a mixture has."""
        return self.maps * self.dim

    def check_images(self, x: Tensor) -> None:
        if x.dim() != 3:
            raise ValueError(f"expected images of shape (groups, slots, {self.dim}), got {tuple(x.shape)}")

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        self.check_images(x)
        return self.mix_images(x.view(*x.shape[:2], self.side, self.side), mask).flatten(1)

    def mix_images(self, images: Tensor, used: Tensor | None) -> Tensor:
        raise TypeError(f"{type(self).__name__} must define mix_images()")


class ImageMap(ImageMultiplexer):
    """A linear map a slot, kept as a matrix, fixed unless `learned`. A subclass writes `transform`."""

    keys: Tensor  # n d d

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        published: bool = False,
        learned: bool = False,
        scale: Scale = "sum",
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self.published = published
        self._register_state(learned=learned)

    def initial_state(self) -> dict[str, Tensor]:
        each = torch.eye(self.dim).view(self.dim, 1, self.side, self.side)  # an image for every pixel
        return {"keys": torch.stack([self.transform(each, i).flatten(1) for i in range(self.num_instances)])}

    def transform(self, images: Tensor, slot: int) -> Tensor:
        """What `slot` does to images (i 1 side side)."""
        raise TypeError(f"{type(self).__name__} must define transform()")

    def mix_images(self, images: Tensor, used: Tensor | None) -> Tensor:
        return mix_by_matrices(images.flatten(2), self.keys).view(-1, 1, self.side, self.side)


class Rotation(ImageMap):
    def transform(self, images: Tensor, slot: int) -> Tensor:
        angle = 2 * math.pi * slot / self.num_instances
        turn = torch.tensor([[math.cos(angle), -math.sin(angle), 0.0], [math.sin(angle), math.cos(angle), 0.0]])
        grid = F.affine_grid(turn.expand(len(images), 2, 3), list(images.shape), align_corners=False)
        turned = F.grid_sample(images, grid, mode="bicubic", align_corners=False)
        return turned * (1 - 2 * slot) if self.published else turned


class Mosaic(ImageMap):
    def transform(self, images: Tensor, slot: int) -> Tensor:
        return self.band(images, slot) if self.published else self.tile(images, slot)

    def tile(self, images: Tensor, slot: int) -> Tensor:
        tiles = tiles_a_row(self.num_instances)
        tile = self.side // tiles
        row, column = divmod(slot, tiles)
        placed = torch.zeros_like(images)
        small = F.adaptive_avg_pool2d(images, tile)
        placed[:, :, row * tile : (row + 1) * tile, column * tile : (column + 1) * tile] = small
        return placed

    def band(self, images: Tensor, slot: int) -> Tensor:
        """Four tiles a row were meant, whatever n. The slices skip an axis, so that a row of tiles addresses channels
        (there is one, and rows 1 to 3 find none) and a column addresses heights.
        """
        column, row = divmod(slot, 4)
        height = self.side // 4
        if column > 3:
            raise ValueError(
                f"the published mosaic has 16 tiles; num_instances must be 1 to 16, got {slot + 1} or more"
            )
        placed = torch.zeros_like(images)
        if row == 0:
            placed[:, :, column * height : (column + 1) * height] = images[:, :, ::4]
        return placed


class Kernel(ImageMultiplexer):
    """`native`: the convolution is that of `datamux.native`."""

    native = False
    keys: Tensor  # n 1 3 3

    def __init__(
        self, num_instances: int, dim: int, *, learned: bool = False, scale: Scale = "sum", seed: int = 0
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self._register_state(learned=learned)

    def initial_state(self) -> dict[str, Tensor]:
        return {"keys": gaussian(self.num_instances, 1, 3, 3, generator=self.generator())}

    def mix_images(self, images: Tensor, used: Tensor | None) -> Tensor:
        k = images.shape[1]
        if self.native and fits(images):  # what is added up has one map and one kernel a slot: k maps to one
            return unblocked(layer(blocked(images), self.keys[:k].transpose(0, 1), padding=1, squash=False))
        return F.conv2d(images, self.keys[:k].to(images.dtype), padding=1, groups=k).sum(1, keepdim=True)


class Nonlinear(ImageMultiplexer):
    """`native`: the convolutions are those of `datamux.native`."""

    native = False
    first: Tensor  # n 16 1 3 3
    first_bias: Tensor  # n 16
    second: Tensor  # n c 16 3 3
    second_bias: Tensor  # n c

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        maps: int = 1,
        kernels: int = 16,
        published: bool = False,
        scale: Scale = "sum",
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self.maps = maps
        self.kernels = kernels
        self.published = published
        self._register_state(learned=True)

    def initial_state(self) -> dict[str, Tensor]:
        n, k, generator = self.num_instances, self.kernels, self.generator()
        if self.published:
            return {
                "first": gaussian(n, k, 1, 3, 3, generator=generator),
                "second": gaussian(n, self.maps, k, 3, 3, generator=generator),
            }
        return {
            "first": layer_start(n, k, 1, 3, 3, inputs=9, generator=generator),
            "first_bias": layer_start(n, k, inputs=9, generator=generator),
            "second": layer_start(n, self.maps, k, 3, 3, inputs=9 * k, generator=generator),
            "second_bias": layer_start(n, self.maps, inputs=9 * k, generator=generator),
        }

    def mix_images(self, images: Tensor, used: Tensor | None) -> Tensor:
        if self.native and used is None and fits(images):
            k = images.shape[1]
            biases = (None, None) if self.published else (self.first_bias[:k], self.second_bias[:k])
            return nonlinear(images, self.first[:k], biases[0], self.second[:k], biases[1])
        # A slot at a time stays in the cache, which one grouped convolution does not.
        total = torch.zeros((), dtype=images.dtype, device=images.device)
        for i in range(images.shape[1]):
            part = self.separate(images[:, i : i + 1], i)
            total = total + (part if used is None else part * used[:, i, None, None, None])
        return total

    def separate(self, images: Tensor, slot: int) -> Tensor:
        """(b 1 side side) -> (b c side side)."""
        bias = (None, None) if self.published else (self.first_bias[slot], self.second_bias[slot])
        last = torch.channels_last  # the layout with the faster backward pass
        first, second = self.first[slot].contiguous(memory_format=last), self.second[slot]
        a = quick_tanh(F.conv2d(images.contiguous(memory_format=last), first, bias[0], padding=1))
        if self.maps > 1:
            return quick_tanh(F.conv2d(a, second.contiguous(memory_format=last), bias[1], padding=1))
        # A convolution pads its single map to sixteen; one a kernel does not, and adding up is quick.
        each = F.conv2d(a, second.transpose(0, 1).contiguous(memory_format=last), padding=1, groups=self.kernels)
        total = each.sum(1, keepdim=True)
        return quick_tanh(total if bias[1] is None else total + bias[1])


def tiles_a_row(slots: int) -> int:
    """Of the smallest square of tiles that has a tile for every slot."""
    return math.isqrt(slots - 1) + 1


def quick_tanh(x: Tensor) -> Tensor:
    """tanh, through the sigmoid: a fifth of the time of torch's on some CPUs."""
    y: Tensor = _QuickTanh.apply(x)  # type: ignore[no-untyped-call]
    return y


class _QuickTanh(torch.autograd.Function):
    """By hand, so that the way back is one pass over the numbers, not three."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.mul(x, 2).sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        found: Tensor = torch.ops.aten.tanh_backward(grad, y)
        return found
