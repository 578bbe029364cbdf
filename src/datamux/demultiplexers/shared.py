"""The network that `key` and `index` have in common: one for all slots, with a vector p_i that says which slot it is.

    z_i = LN(W_o gelu(W_h h + W_k p_i))

The first layer of MLP([h; p_i]) is split: W_h h is computed once, not n times, and W_k p_i once per slot, not once per
position. W_k p_i is computed again in every pass, even if p_i is a constant: it is n rows beside thousands of
positions, and a stored copy would have to follow every change of the weights. This file does not know where p_i comes
from.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from datamux.demultiplexers.base import Demultiplexer


class SharedDemultiplexer(Demultiplexer):
    """A subclass writes `slot_vectors`, and `initial_state` for the learned vectors behind them."""

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        hidden_dim: int | None = None,
        embedding_dim: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, embedding_dim=embedding_dim, seed=seed)
        hidden_dim = hidden_dim or 2 * dim
        self.from_state = nn.Linear(dim, hidden_dim)
        self.from_slot = nn.Linear(dim, hidden_dim, bias=False)
        self.out = nn.Linear(hidden_dim, dim)
        self.norm = nn.LayerNorm(dim)
        self._register_state(learned=True)

    def slot_vectors(self, prefix: Tensor, slots: int) -> Tensor:
        """The vectors p_i: (n d) or, if they depend on the group, (b n d)."""
        raise TypeError(f"{type(self).__name__} must define slot_vectors()")

    def activations(self, h: Tensor, prefix: Tensor, slots: int) -> Tensor:
        p = self.from_slot(self.slot_vectors(prefix, slots)).unsqueeze(-2)  # (b) n 1 e
        return F.gelu(self.from_state(h).unsqueeze(1) + p)

    def project(self, a: Tensor) -> Tensor:
        z: Tensor = self.norm(self.out(a))
        return z
