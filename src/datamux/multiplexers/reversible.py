"""Each instance is reduced to d/n numbers, and coupled with the others by a map that can be undone exactly.

    o_i = x_i W,   W (d d/n) for all slots;   x_mix = coupling(o_1, ..., o_n)

Paper: RevMUX. The map and its inverse are in coupling.py. It is made for encoders that stay as they are (`frozen`, see
docs/guides/successors.md), with `mux_layer` above 0 and the `reversible` demultiplexer, which shares the coupling.

Differs from the paper: see coupling.py; and the released code mixes up the order of the d numbers when it undoes the
map. An empty slot, and padding, is coupled as a vector of zeros.
"""

import torch
from torch import Tensor, nn

from datamux.coupling import Coupling
from datamux.multiplexers.base import Multiplexer


class Reversible(Multiplexer):
    def __init__(self, num_instances: int, dim: int, *, hidden_dim: int | None = None, seed: int = 0) -> None:
        super().__init__(num_instances, dim, scale="sum", seed=seed)  # the parts lie side by side: nothing is scaled
        self.coupling = Coupling("reversible", num_instances, dim, hidden_dim or dim)
        self.reduce = nn.Linear(dim, self.coupling.width, bias=False)

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        small: Tensor = self.reduce(x)  # b k ... d/n
        empty = self.num_instances - x.shape[1]
        if empty:
            zeros = small.new_zeros(small.shape[0], empty, *small.shape[2:])
            small = torch.cat([small, zeros], dim=1)
        mixture: Tensor = self.coupling(small)
        return mixture

    def members(self, mixture: Tensor) -> Tensor:
        """The reduced instances (b n ... d/n) that a mixture (b ... d) was made of."""
        return self.coupling.inverse(mixture)
