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

TOKEN_STD = 0.02  # the spread of BERT's word vectors at the start


class IndexDemultiplexer(SharedDemultiplexer):
    tokens: Tensor  # n+1 d, the last one is the pad token

    def initial_state(self) -> dict[str, Tensor]:
        shape = (self.num_instances + 1, self.embedding_dim)
        return {"tokens": gaussian(*shape, generator=self.generator(), std=TOKEN_STD)}

    def prefix_length(self, slots: int) -> int:
        return slots

    def add_prefix(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if x.dim() != 4:
            raise ValueError(
                f"index puts a prefix before token sequences (groups, slots, tokens, {self.embedding_dim}), "
                f"got {tuple(x.shape)}"
            )
        b, k = x.shape[:2]
        is_own_position = torch.eye(k, dtype=torch.bool, device=x.device).unsqueeze(-1)
        prefix = torch.where(is_own_position, self.tokens[:k], self.tokens[-1]).to(x.dtype)  # n p d
        x = torch.cat([prefix.expand(b, k, k, -1), x], dim=2)
        if mask is not None:
            in_use = mask.any(-1, keepdim=True).expand(b, k, k)
            mask = torch.cat([in_use, mask], dim=2)
        return x, mask

    def slot_vectors(self, prefix: Tensor, slots: int) -> Tensor:
        return prefix
