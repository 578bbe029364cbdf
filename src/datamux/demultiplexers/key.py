"""A learned key per slot tells the slots apart; no prefix, so no position is spent on them.

    p_i = key_i,   z_i = LN(W_o gelu(W_h h + W_k key_i))

Source: MUX-PLM's RSA demultiplexer (arXiv 2302.12441). W_k key_i is a constant at inference.

Differs from the source: the first layer is split (see shared.py) and there is one hidden layer without a residual.
"""

from torch import Tensor

from datamux.demultiplexers.shared import SharedDemultiplexer
from datamux.seeded import gaussian


class KeyDemultiplexer(SharedDemultiplexer):
    keys: Tensor  # n d

    def initial_state(self) -> dict[str, Tensor]:
        return {"keys": gaussian(self.num_instances, self.dim, generator=self.generator())}

    def slot_vectors(self, prefix: Tensor, slots: int) -> Tensor:
        return self.keys[:slots]
