"""All slots share one hidden layer, which each slot scales by its own learned vector; no prefix.

    z_i = LN(W_o (gate_i * gelu(W_h h)))

`linear=True` adds a second gate, on h itself, past the matrices:

    z_i = LN(W_o (gate_i * gelu(W_h h)) + sign_i * h)

The second gate starts as the keys of the `sign` multiplexer with the same seed (slot 0 is all +1). So it undoes these
keys, and a group of one passes through almost unchanged. That suits pretrained encoders.

Each slot has a linear map of its own, W_o diag(gate_i), on features that are computed once for all slots. Gating can
undo what Hadamard keys do; adding a key cannot. And because the gate does not depend on the position, the mean over an
instance's own tokens is one small matrix product, mask (b n l) times features (b l e), taken before any work per slot.

Ours: not in the paper.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datamux.demultiplexers.base import Demultiplexer, mean_over_own_tokens
from datamux.seeded import gaussian, sign_keys


class GateDemultiplexer(Demultiplexer):
    gates: Tensor  # n e
    pools_before_slots = True

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        hidden_dim: int | None = None,
        linear: bool = False,
        embedding_dim: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, embedding_dim=embedding_dim, seed=seed)
        self.hidden_dim = hidden_dim or 2 * dim
        self.linear = linear
        self.from_state = nn.Linear(dim, self.hidden_dim)
        self.out = nn.Linear(self.hidden_dim, dim)
        self.norm = nn.LayerNorm(dim)
        self._register_state(learned=True)

    def initial_state(self) -> dict[str, Tensor]:
        generator = self.generator()
        signs = [sign_keys(self.num_instances, self.dim, generator)] if self.linear else []
        gates = gaussian(self.num_instances, self.hidden_dim, generator=generator)
        return {"gates": torch.cat([gates, *signs], dim=1)}

    def features(self, h: Tensor) -> Tensor:
        """(b r d) -> (b r e), the same for every slot."""
        a = F.gelu(self.from_state(h))
        return torch.cat([a, h.to(a.dtype)], dim=-1) if self.linear else a

    def activations(self, h: Tensor, prefix: Tensor, slots: int) -> Tensor:
        return self.features(h).unsqueeze(1) * self.gates[:slots, None]

    def pooled_activations(self, h: Tensor, prefix: Tensor, slots: int, mask: Tensor | None) -> Tensor:
        features = self.features(h).unsqueeze(1)  # b 1 l e; the mean is taken before the gates
        return mean_over_own_tokens(features, mask) * self.gates[:slots, None]

    def project(self, a: Tensor) -> Tensor:
        z: Tensor = self.out(a[..., : self.hidden_dim])
        if self.linear:
            z = z + a[..., self.hidden_dim :]
        normed: Tensor = self.norm(z)
        return normed
