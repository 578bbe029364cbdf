"""Each slot keeps the leading directions of its image and places them in a subspace of its own.

    phi_i(x) = (x H_i) U_i,   H_i (d r), U_i (r c*d): rows of one orthonormal U,   r = d/n

`fit` sets every H_i to the r principal components of the images it is given. Until then the columns of H_i are the
slowest cosine waves, which come close to the principal components of natural images. With `learned`, training goes on
from there with both matrices. The mixture has c maps (`maps`).

Differs from the paper: this method is ours. It follows the paper's remark that 50 principal components hold most of an
image's variance, so that 400 / 50 = 8 images should fit into the place of one. The paper's `low_rank` keeps random
directions; this method keeps those with the most variance.
"""

import math

import torch
from torch import Tensor

from datamux.multiplexers.base import Scale
from datamux.multiplexers.for_images.base import ImageMultiplexer
from datamux.seeded import gaussian


class Principal(ImageMultiplexer):
    reduce: Tensor  # n d r
    place: Tensor  # n r c*d

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        rank: int | None = None,
        maps: int = 1,
        learned: bool = False,
        scale: Scale = "sum",
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self.maps = maps
        self.rank = rank or max(1, dim // num_instances)
        if not 1 <= self.rank <= dim:
            raise ValueError(f"rank must be 1 to {dim}, the number of pixels, got {self.rank}")
        self._register_state(learned=learned)

    def initial_state(self) -> dict[str, Tensor]:
        n, r = self.num_instances, self.rank
        waves = slow_waves(self.side)[:, :r]
        rows = gaussian(self.out_dim, n * r, generator=self.generator()).double()
        # Rows are orthonormal as long as they fit, otherwise columns are, so that no direction is louder than another.
        place = torch.linalg.qr(rows).Q.T if n * r <= self.out_dim else torch.linalg.qr(rows.T).Q
        return {"reduce": waves.repeat(n, 1, 1).float(), "place": place.reshape(n, r, self.out_dim).float()}

    @torch.no_grad()
    def fit(self, images: Tensor) -> None:
        """Make every slot keep the principal components of `images` (i d)."""
        x = images.double()
        x = x - x.mean(0)
        leading = torch.linalg.eigh(x.T @ x).eigenvectors.flip(1)[:, : self.rank]
        self.reduce.copy_(leading.expand_as(self.reduce))

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        self.check_images(x)
        k = x.shape[1]
        parts = torch.einsum("bnd,ndr->bnr", x, self.reduce[:k].to(x.dtype))
        return parts.flatten(1) @ self.place[:k].flatten(0, 1).to(x.dtype)


def slow_waves(side: int) -> Tensor:
    """(d d): the orthonormal cosine waves of a side x side image, one per column, slowest first."""
    line = torch.arange(side, dtype=torch.float64)
    wave = torch.cos(math.pi * (2 * line[:, None] + 1) * line / (2 * side))  # pixel, frequency
    wave = wave / wave.norm(dim=0)
    both = torch.einsum("yu,xv->yxuv", wave, wave).reshape(side**2, side**2)
    speed = (line[:, None] ** 2 + line**2).flatten()
    return both[:, speed.argsort(stable=True)]
