"""What every image multiplexer is: (b n d) -> (b c*d), where d = side x side pixels and c is the number of maps.

An image is a row of pixels, as everywhere in this package. An image multiplexer sees it as a square, so that it can
use which pixels are neighbours.
"""

import math

import torch
from torch import Tensor

from datamux.multiplexers.base import Multiplexer, Scale, mix_by_matrices


class ImageMultiplexer(Multiplexer):
    """Base class. A subclass writes `mix_images`.

    `maps` is the number of maps in a mixture, each of them as large as one image.
    """

    maps: int = 1

    def __init__(self, num_instances: int, dim: int, *, scale: Scale = "sum", seed: int = 0) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self.side = math.isqrt(dim)
        if self.side**2 != dim:
            raise ValueError(
                f"image multiplexers take square images, so dim (the number of pixels) must be a square number, "
                f"such as 400 for 20x20; got {dim}"
            )

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
        """(b n side side) -> (b c side side).

        `used` (b n) is False where a slot is empty. The image of an empty slot is all zeros, so a linear method can
        ignore `used`.
        """
        raise TypeError(f"{type(self).__name__} must define mix_images()")


class ImageMap(ImageMultiplexer):
    """Base class of methods with one linear map per slot, stored as a matrix. A subclass writes `transform`.

    The matrices are fixed; with `learned` they are where training starts.
    """

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
        # An image with one white pixel, for each pixel: its transform is that pixel's row of the matrix.
        pixels = torch.eye(self.dim).view(self.dim, 1, self.side, self.side)
        return {"keys": torch.stack([self.transform(pixels, i).flatten(1) for i in range(self.num_instances)])}

    def transform(self, images: Tensor, slot: int) -> Tensor:
        """What `slot` does to images: (i 1 side side) -> (i 1 side side)."""
        raise TypeError(f"{type(self).__name__} must define transform()")

    def mix_images(self, images: Tensor, used: Tensor | None) -> Tensor:
        return mix_by_matrices(images.flatten(2), self.keys).view(-1, 1, self.side, self.side)


def tiles_per_row(slots: int) -> int:
    """The side of the smallest square of tiles that has one tile for every slot."""
    return math.isqrt(slots - 1) + 1
