"""What every multiplexer does: (b n ... d) -> (b ... d), a scaled sum of phi_i(x_i) over the slots in use.

    x_mix = s(k) * sum_i phi_i(x_i),   s(k) = 1/k in the paper (Eq. 1)

It knows slots and padding. It does not know ids, encoders or heads.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from datamux.errors import check_at_least_one, check_choice
from datamux.seeded import SeededModule

Scale = Literal["mean", "sqrt", "sum"]


class Multiplexer(SeededModule):
    """Base class. A subclass writes either `weights` or `mix`, and `initial_state` if it has keys.

    - `weights`: if phi_i only multiplies each dimension by a number that belongs to slot i. `mix` follows from it.
    - `mix`: for everything else.

    `scale`: "mean" divides by the number k of slots in use, as in the paper. "sqrt" divides by sqrt(k), so that the
    mixture of independent inputs keeps the variance of one input: with "mean", words fade against the position
    vectors that an encoder adds afterwards. "sum" does not scale at all, like the published vision code.
    """

    def __init__(self, num_instances: int, dim: int, *, scale: Scale = "mean", seed: int = 0) -> None:
        check_at_least_one("num_instances", num_instances)
        check_at_least_one("dim", dim)
        check_choice("scale", scale, get_args(Scale))
        super().__init__(seed)
        self.num_instances = num_instances
        self.dim = dim
        self.scale = scale

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix `x` (b k ... d), k <= num_instances. `mask` (b k ...) is True where a slot holds something."""
        self._check(x)
        factor = self.factor(x.shape[1], mask)
        if mask is None:
            return self.mix(x, None) * factor
        mask = mask.view(*mask.shape, *[1] * (x.dim() - 1 - mask.dim()))
        total = self.mix(x * mask.unsqueeze(-1).to(x.dtype), mask)
        return total * factor.to(x.dtype).view(-1, *[1] * (x.dim() - 2))

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """The plain sum over slots of phi_i(x_i). Empty places of `x` are zero already."""
        weights = self.weights(x.shape[1])
        if weights is None:
            raise TypeError(f"{type(self).__name__} must define weights() or mix()")
        weights = weights.to(x).view(x.shape[1], *[1] * (x.dim() - 3), self.dim)
        return (x * weights).sum(1)  # an einsum would transpose x first, which takes several times as long

    def weights(self, slots: int) -> Tensor | None:
        """(n d) if phi_i(x) = weights_i * x, for the first `slots` slots; None if phi_i does anything else."""
        return None

    def mixing_weights(self, slots: int) -> Tensor | None:
        """`weights`, if mixing does nothing else with its inputs, so that another implementation can do it instead.

        None if the class writes its own `mix` or `forward`, even if it inherits `weights` from its parent.
        """
        derived = (self.mix, Multiplexer.mix), (self.forward, Multiplexer.forward)
        if any(getattr(method, "__func__", None) is not original for method, original in derived):
            return None
        return self.weights(slots)

    def factor(self, slots: int, mask: Tensor | None = None) -> Tensor:
        """The scale s(k): one number, or one per group (b) where a mask says how many of the `slots` are in use."""
        power = {"mean": -1.0, "sqrt": -0.5, "sum": 0.0}[self.scale]
        if mask is None:
            return torch.tensor(float(slots**power))
        used = mask.unsqueeze(-1).flatten(2).any(-1).sum(1).clamp(min=1)
        return used.float().pow(power)

    def _check(self, x: Tensor) -> None:
        if x.dim() < 3 or x.shape[-1] != self.dim:
            raise ValueError(f"expected x of shape (groups, slots, ..., {self.dim}), got {tuple(x.shape)}")
        if x.shape[1] > self.num_instances:
            raise ValueError(f"x has {x.shape[1]} slots, but this multiplexer has {self.num_instances}")

    def extra_repr(self) -> str:
        return f"num_instances={self.num_instances}, dim={self.dim}, scale={self.scale!r}"


def mix_by_matrices(x: Tensor, matrices: Tensor) -> Tensor:
    """The sum over slots of x_i M_i, from `x` (b k ... d) and `matrices` (n d e), as one matrix product: (b ... e)."""
    together = x.movedim(1, -2).flatten(-2)  # b ... k*d
    return together @ matrices[: x.shape[1]].flatten(0, 1).to(x.dtype)
