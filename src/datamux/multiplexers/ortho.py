"""Each slot multiplies by its own random orthogonal matrix; `learned`, it is only the start.

    phi_i(x) = x Q_i,   Q_i in O(d)

Paper: "Ortho" (Section 3.1; SO(d) in the vision appendix). Costs k d^2 multiplications a token.

Differs from the paper: the published code divides by sqrt(k) here; that is `scale="sqrt"`. Matrices are uniform over
O(d), not SO(d): a reflection more or less changes nothing a network could notice. Learning them is ours.
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
