"""Each slot multiplies by its own random orthogonal matrix; with `learned`, training starts from it.

    phi_i(x) = x Q_i,   Q_i in O(d)

Paper: "Ortho" (Section 3.1; SO(d) in the vision appendix). Costs k d^2 multiplications per token.

Differs from the paper: the published code divides by sqrt(k) here; that is `scale="sqrt"`. Matrices are uniform over
O(d), not SO(d), which makes no difference to a network: it can undo a reflection as easily as a rotation. Learning the
matrices is ours.
"""

import torch
from torch import Tensor

from datamux.multiplexers.base import Multiplexer, Scale, mix_by_matrices
from datamux.seeded import random_orthogonal


class Ortho(Multiplexer):
    keys: Tensor  # n d d

    def __init__(
        self, num_instances: int, dim: int, *, learned: bool = False, scale: Scale = "mean", seed: int = 0
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self._register_state(learned=learned)

    def initial_state(self) -> dict[str, Tensor]:
        generator = self.generator()
        matrices = [random_orthogonal(self.dim, generator) for _ in range(self.num_instances)]
        return {"keys": torch.stack(matrices).float()}

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return mix_by_matrices(x, self.keys)
