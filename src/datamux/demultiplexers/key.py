"""Each slot is told apart by a learned private key; no prefix, so no position is spent on it.

    p_i = key_i,   z_i = LN(W_o gelu(W_h h + W_k key_i))

Source: MUX-PLM's RSA demultiplexer (arXiv 2302.12441). W_k key_i is a constant at inference.

Differs from the source: the first layer is split (see shared.py) and there is one hidden layer without a residual.
"""

from torch import Tensor

from datamux.demultiplexers.shared import SharedDemultiplexer
from datamux.seeded import gaussian


class KeyDemultiplexer(SharedDemultiplexer):
    keys: Tensor  # n d

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        hidden_dim: int | None = None,
        embedding_dim: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, hidden_dim=hidden_dim, embedding_dim=embedding_dim, seed=seed)
        self._register_state(learned=True)

    def initial_state(self) -> dict[str, Tensor]:
        return {"keys": gaussian(self.num_instances, self.dim, generator=self.generator())}

    def slot_vectors(self, prefix: Tensor, slots: int) -> Tensor:
        return self.keys[:slots]
