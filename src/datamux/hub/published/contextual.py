"""The contextual multiplexer of MUX-PLM's checkpoints (`gaussian_attention_v2`).

    g_i = layer_1(x_i) + x_i                 over the tokens of one row; its padding is not looked at
    u_i = v_i * g_i                          fixed Gaussian keys
    phi_i(x) = layer_2(u_1, ..., u_n)_i + u_i     over the slots at one position;   x_mix = mean_i phi_i(x)

Both layers are as large as one of the encoder's. For a task, layer_2 does not look at slots that have padding at the
position, unless all have; for retrieval it looks at all. Unlike in `multiplexers/contextual.py`, padding is mixed.
"""

import torch
from torch import Tensor

from datamux.multiplexers.base import Multiplexer, Scale
from datamux.multiplexers.contextual import AttentionLayer
from datamux.seeded import gaussian


class PublishedContextual(Multiplexer):
    """`inner_dim` is the width inside the two layers; `slots_see_padding` is how layer_2 is run for retrieval."""

    keys: Tensor  # n d

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        num_heads: int,
        inner_dim: int,
        eps: float = 1e-12,
        slots_see_padding: bool = False,
        learned: bool = False,
        scale: Scale = "mean",
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self.attend_tokens = AttentionLayer(dim, num_heads, inner_dim=inner_dim, eps=eps)
        self.attend_slots = AttentionLayer(dim, num_heads, inner_dim=inner_dim, eps=eps)
        self.slots_see_padding = slots_see_padding
        self._register_state(learned=learned)

    def initial_state(self) -> dict[str, Tensor]:
        return {"keys": gaussian(self.num_instances, self.dim, generator=self.generator())}

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(b k l d) -> (b l d). `mask` (b k l) is True at tokens; a slot without any holds no row."""
        self._check(x)
        mask = torch.ones(x.shape[:3], dtype=torch.bool, device=x.device) if mask is None else mask
        occupied = mask.any(-1, keepdim=True)  # b k 1
        attended = self.attend_tokens(x.flatten(0, 1), mask.flatten(0, 1)).view_as(x)
        u = (attended + x) * self.keys[: x.shape[1], None].to(x.dtype)
        looked_at = occupied.expand_as(mask)
        if not self.slots_see_padding:
            looked_at = torch.where(mask.any(1, keepdim=True), mask, looked_at)
        u = u.transpose(1, 2).flatten(0, 1)  # (b l) k d
        phi = self.attend_slots(u, looked_at.transpose(1, 2).flatten(0, 1)) + u
        phi = phi.view(x.shape[0], x.shape[2], *x.shape[1:2], -1) * occupied.unsqueeze(1).to(x.dtype)  # b l k d
        factor = self.factor(x.shape[1], occupied).to(x.dtype)
        mixture: Tensor = phi.sum(2) * factor.view(-1, 1, 1)
        return mixture
