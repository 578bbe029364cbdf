"""Each instance first reads its own sequence, then the slots of one position read each other.

    g_i = attend_l(x_i) + x_i            attention over the tokens of one instance
    u_i = v_i * g_i                      fixed Gaussian keys
    phi_i(x) = attend_n(u)_i + u_i       attention over the slots at one position

Source: MUX-PLM (arXiv 2302.12441), its contextual multiplexer. Costs one small Transformer layer per instance, so
the speed-up stays below n: with L layers in the encoder at most about n L / (L + n).

Differs from the source: nothing attends to padding, neither along the sequence nor across slots.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from datamux.multiplexers.base import Multiplexer, Scale
from datamux.seeded import gaussian


class AttentionLayer(nn.Module):
    """One post-norm Transformer layer over the middle axis of (rows tokens d); 2d wide inside, unless it is told."""

    def __init__(self, dim: int, num_heads: int, *, inner_dim: int | None = None, eps: float = 1e-5) -> None:
        super().__init__()
        inner_dim = inner_dim or 2 * dim
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=eps)
        self.up = nn.Linear(dim, inner_dim)
        self.down = nn.Linear(inner_dim, dim)
        self.norm_out = nn.LayerNorm(dim, eps=eps)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        heads = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        bias = None
        if mask is not None:
            # A row without tokens attends to everything, so that softmax stays finite; its output is dropped.
            bias = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        context = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask=bias)
        x = self.norm(x + self.out(context.transpose(1, 2).flatten(2)))
        out: Tensor = self.norm_out(x + self.down(F.gelu(self.up(x))))
        return out


class Contextual(Multiplexer):
    keys: Tensor  # n d

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        num_heads: int | None = None,
        scale: Scale = "mean",
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        num_heads = num_heads or next(h for h in range(max(1, dim // 64), 0, -1) if dim % h == 0)
        if dim % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide the {dim} dimensions; choose a divisor")
        self.attend_tokens = AttentionLayer(dim, num_heads)
        self.attend_slots = AttentionLayer(dim, num_heads)
        self._register_state(learned=False)

    def initial_state(self) -> dict[str, Tensor]:
        return {"keys": gaussian(self.num_instances, self.dim, generator=self.generator())}

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        if x.dim() != 4:
            raise ValueError(
                f"contextual mixes token sequences (groups, slots, tokens, {self.dim}), got {tuple(x.shape)}"
            )
        b, k, tokens, _ = x.shape
        mask = None if mask is None else mask.expand(b, k, tokens)
        attended = self.attend_tokens(x.flatten(0, 1), None if mask is None else mask.flatten(0, 1))
        u = (attended.view_as(x) + x) * self.keys[:k, None].to(x.dtype)
        u = u.transpose(1, 2).flatten(0, 1)  # (b l) n d
        present = None if mask is None else mask.transpose(1, 2).flatten(0, 1)  # (b l) n
        mixed: Tensor = self.attend_slots(u, present) + u
        if present is not None:
            mixed = mixed * present.unsqueeze(-1).to(mixed.dtype)
        return mixed.sum(1).view(b, tokens, self.dim)
