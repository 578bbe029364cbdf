"""Undoes the coupling of the `reversible` multiplexer, then widens each instance's d/n numbers to d again.

    o_1, ..., o_n = coupling^-1(h),   z_i = W_3 gelu(W_2 gelu(W_1 o_i))

Paper: RevMUX. With the `reversible` multiplexer, the coupling is the multiplexer's own; with another one, it is learned
by itself. The three matrices are shared by all slots and are as wide as in the paper (3d). A head that reads every
token runs them at every token of every instance, which costs about as much as one layer of the encoder.

Differs from the paper: the inverse holds for every n, not only for 2 (see coupling.py).
"""

from torch import Tensor, nn

from datamux.coupling import Coupling
from datamux.demultiplexers.base import Demultiplexer


class ReversibleDemultiplexer(Demultiplexer):
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
        hidden_dim = hidden_dim or 3 * dim
        self.coupling: Coupling | None = Coupling("reversible", num_instances, dim, dim)
        self._couplings = (self.coupling,)  # a tuple, so that a coupling of the multiplexer's is saved only once
        self.widen = nn.Sequential(
            nn.Linear(self.coupling.width, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, hidden_dim), nn.GELU()
        )
        self.out = nn.Linear(hidden_dim, dim)

    def attach(self, multiplexer: nn.Module) -> None:
        coupling = getattr(multiplexer, "coupling", None)
        if isinstance(coupling, Coupling) and coupling.width == self._couplings[0].width:
            self.coupling = None
            self._couplings = (coupling,)

    def activations(self, h: Tensor, prefix: Tensor, slots: int) -> Tensor:
        small = self._couplings[0].inverse(h)[:, :slots]  # b n r d/n
        a: Tensor = self.widen(small)
        return a

    def project(self, a: Tensor) -> Tensor:
        z: Tensor = self.out(a)
        return z
