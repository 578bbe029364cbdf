"""The demultiplexer of MUX-PLM's checkpoints (MUX-BERT): private keys instead of a prefix, and several layers.

    task:       a = gelu(W_1 [key_i; h]);  a = a + gelu(W_j a), j = 2, 3, ...;   z_i = a + LN(gelu(W_o a))
    retrieval:  a = LN_1(gelu(W_1 [key_i; h]));  a = LN_2(gelu(W_2 a));          z_i = LN(gelu(W_o a))

The layers below W_o are shared between the two. As in the published code, the task leaves out their LayerNorms and
the last of the layers, and retrieval leaves out the residuals.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from datamux.demultiplexers.base import Demultiplexer
from datamux.hub.published.quirks import whole_rows
from datamux.seeded import gaussian


class PublishedKeyDemultiplexer(Demultiplexer):
    """`layers` below W_o; `for_retrieval` chooses between the two formulas.

    `tells_padding`: the multiplexer is told which tokens are padding, which the contextual one needs.
    """

    keys: Tensor  # n d

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        layers: int = 1,
        for_retrieval: bool = False,
        tells_padding: bool = False,
        eps: float = 1e-12,
        embedding_dim: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, embedding_dim=embedding_dim, seed=seed)
        self.from_state = nn.Linear(dim, dim)
        self.from_slot = nn.Linear(dim, dim, bias=False)
        self.more = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers - 1))
        self.norms = nn.ModuleList(nn.LayerNorm(dim, eps=eps) for _ in range(layers if for_retrieval else 0))
        self.out = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=eps)
        self.for_retrieval = for_retrieval
        self.tells_padding = tells_padding
        self._register_state(learned=True)

    def initial_state(self) -> dict[str, Tensor]:
        return {"keys": gaussian(self.num_instances, self.dim, generator=self.generator())}

    def add_prefix(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return x, mask if self.tells_padding else whole_rows(x, mask)

    def activations(self, h: Tensor, prefix: Tensor, slots: int) -> Tensor:
        p = self.from_slot(self.keys[:slots]).unsqueeze(1)  # n 1 d
        return F.gelu(self.from_state(h).unsqueeze(1) + p)

    def project(self, a: Tensor) -> Tensor:
        if self.for_retrieval:
            a = self.norms[0](a)
            for layer, norm in zip(self.more, self.norms[1:], strict=True):
                a = norm(F.gelu(layer(a)))
            return self._last(a)
        for layer in self.more:
            a = a + F.gelu(layer(a))
        return a + self._last(a)

    def _last(self, a: Tensor) -> Tensor:
        z: Tensor = self.norm(F.gelu(self.out(a)))
        return z
