"""The paper's Index Embedding: a prefix tells the slots apart, and the network itself turns it into keys.

    prefix_i = [pad ... pad, token_i, pad ... pad]     token_i at position i
    p_i = h at prefix position i,   z_i = LN(W_o gelu(W_h h_j + W_k p_i))

Paper: Section 3.2, "Index Embeddings". Costs k extra positions of sequence length, one for each slot in use.

Differs from the published code: the prefix has learned vectors of its own; it never borrows rows of the vocabulary.
"""

import torch
from torch import Tensor

from datamux.demultiplexers.shared import SharedDemultiplexer
from datamux.seeded import gaussian


class IndexDemultiplexer(SharedDemultiplexer):
    tokens: Tensor  # n+1 d, the last one is the pad token

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        hidden_dim: int | None = None,
        embedding_dim: int | None = None,
        token_std: float = 0.02,
        seed: int = 0,
    ) -> None:
        """`token_std`: the spread of the prefix vectors at the start; 0.02 is that of BERT's word vectors."""
        super().__init__(num_instances, dim, hidden_dim=hidden_dim, embedding_dim=embedding_dim, seed=seed)
        self.token_std = token_std
        self._register_state(learned=True)

    def initial_state(self) -> dict[str, Tensor]:
        shape = (self.num_instances + 1, self.embedding_dim)
        return {"tokens": gaussian(*shape, generator=self.generator(), std=self.token_std)}

    def prefix_length(self, slots: int) -> int:
        return slots

    def add_prefix(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if x.dim() != 4:
            raise ValueError(
                f"index puts a prefix before token sequences (groups, slots, tokens, {self.embedding_dim}), "
                f"got {tuple(x.shape)}"
            )
        b, k = x.shape[:2]
        own = torch.eye(k, dtype=torch.bool, device=x.device).unsqueeze(-1)
        prefix = torch.where(own, self.tokens[:k], self.tokens[-1]).to(x.dtype)  # n p d
        x = torch.cat([prefix.expand(b, k, k, -1), x], dim=2)
        if mask is not None:
            in_use = mask.any(-1, keepdim=True).expand(b, k, k)
            mask = torch.cat([in_use, mask], dim=2)
        return x, mask

    def slot_vectors(self, prefix: Tensor, slots: int) -> Tensor:
        return prefix
