"""Past the mixture: what an instance was before it was mixed goes to the head, beside what was taken out for it.

    z_i = demultiplexer_i(h) + W LN(x_i)          W starts at zero: a network starts as it would without

x_i is what is mixed: word vectors, or with `mux_layer` the states of the layers that each instance runs alone. So the
head has an instance's own words for certain, and the mixture need only say what stands around them. It costs what the
head reads: one small matrix an instance for a label, one a token for tags. The network still runs once a group.

A test rather than a gain: in our runs on pretrained encoders the head then ignored the mixture (see docs/log.md).

Ours: not in the paper.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datamux.demultiplexers.base import mean_over_own_tokens
from datamux.reads import Reads


class Bypass(nn.Module):
    """`reads`: what the head reads, as of a demultiplexer."""

    def __init__(self, embedding_dim: int, dim: int, reads: Reads) -> None:
        super().__init__()
        self.reads: Reads = reads
        self.weight = nn.Parameter(torch.zeros(dim, embedding_dim))

    def keep(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Of the vectors (b n l d) that are mixed, or (b n d), what the head will read: (b n r d)."""
        if x.dim() == 3:
            return x.unsqueeze(2)
        if self.reads == "pool":
            return mean_over_own_tokens(x, mask)
        return x[:, :, :1] if self.reads == "first" else x

    def forward(self, z: Tensor, kept: Tensor) -> Tensor:
        return z + F.linear(F.layer_norm(kept, kept.shape[-1:]), self.weight)
