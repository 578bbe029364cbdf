"""A learned key per slot and several shared layers with residuals, instead of the one hidden layer of `key`.

    a = LN(gelu(W_h h + W_k key_i));   a = a + LN(gelu(W_j a)) for j = 2 ... layers - 1;   z_i = a + LN(gelu(W_o a))

Paper: MUX-PLM (arXiv 2302.12441), its RSA demultiplexer with 3 layers, shared between retrieval and the task. The first
layer of MLP([key_i; h]) is split, as in shared.py: W_h h is computed once for all slots.

Differs from the paper: the published code loses the LayerNorms of the middle layers in the task (it fetches the
dropouts instead), so that retrieval and task are not quite the same network. Here they are.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from datamux.demultiplexers.base import Demultiplexer
from datamux.seeded import gaussian


class ResidualLayer(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, a: Tensor) -> Tensor:
        out: Tensor = a + self.norm(F.gelu(self.dense(a)))
        return out


class DeepKeyDemultiplexer(Demultiplexer):
    keys: Tensor  # n d

    def __init__(
        self, num_instances: int, dim: int, *, layers: int = 3, embedding_dim: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(num_instances, dim, embedding_dim=embedding_dim, seed=seed)
        if layers < 2:
            raise ValueError(f"layers must be at least 2, the first and the last, got {layers}")
        self.from_state = nn.Linear(dim, dim)
        self.from_slot = nn.Linear(dim, dim, bias=False)
        self.norm = nn.LayerNorm(dim)
        self.middle = nn.Sequential(*(ResidualLayer(dim) for _ in range(layers - 2)))
        self.last = ResidualLayer(dim)
        self._register_state(learned=True)

    def initial_state(self) -> dict[str, Tensor]:
        return {"keys": gaussian(self.num_instances, self.dim, generator=self.generator())}

    def activations(self, h: Tensor, prefix: Tensor, slots: int) -> Tensor:
        p = self.from_slot(self.keys[:slots]).unsqueeze(1)  # n 1 d
        a: Tensor = self.middle(self.norm(F.gelu(self.from_state(h).unsqueeze(1) + p)))
        return a

    def project(self, a: Tensor) -> Tensor:
        z: Tensor = self.last(a)
        return z
