"""Each slot keeps d/n directions of its input and places them in a subspace of its own.

    phi_i(x) = (x H_i) U_i,   H_i (d d/n): columns of one orthogonal H,   U_i (d/n d): rows of one orthogonal U

Paper: "LowRank" (appendix on the MNIST models): d random orthogonal row vectors split into n groups, times another
d x d orthogonal matrix. The same map for Transformers is MUX-PLM's low-rank variant. The n outputs are exactly
orthogonal to each other. As U's rows are stacked, all slots share one multiplication: (x_1 H_1, ..., x_n H_n) U.
"""

import torch
from torch import Tensor

from datamux.errors import check_divisible
from datamux.multiplexers.base import Multiplexer, Scale
from datamux.seeded import random_orthogonal


class LowRank(Multiplexer):
    reduce: Tensor  # n d d/n
    place: Tensor  # n d/n d

    def __init__(self, num_instances: int, dim: int, *, scale: Scale = "mean", seed: int = 0) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self._register_state(learned=False)

    def initial_state(self) -> dict[str, Tensor]:
        n, d = self.num_instances, self.dim
        rank = check_divisible("low_rank", d, n)
        generator = self.generator()
        reduce = random_orthogonal(d, generator).view(d, n, rank).transpose(0, 1).contiguous()
        place = random_orthogonal(d, generator).view(n, rank, d)
        return {"reduce": reduce.float(), "place": place.float()}

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        k = x.shape[1]
        parts = torch.einsum("bn...d,ndr->b...nr", x, self.reduce[:k].to(x.dtype))
        return parts.flatten(-2) @ self.place[:k].flatten(0, 1).to(x.dtype)
