"""Heads: what is asked of each instance after demultiplexing.

A head says which positions it reads. It does not know where their vectors come from.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datamux.reads import Reads


class SequenceHead(nn.Module):
    """One row of logits per instance: (b n 1 d) -> (b n c)."""

    def __init__(self, dim: int, num_labels: int, *, reads: Reads = "pool", dropout: float = 0.1) -> None:
        super().__init__()
        self.reads: Reads = reads
        self.dense = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(dim, num_labels)

    def forward(self, z: Tensor) -> Tensor:
        z = self.dropout(torch.tanh(self.dense(z.squeeze(2))))
        logits: Tensor = self.out(z)
        return logits


class TokenHead(nn.Module):
    """One row of logits per token: (b n l d) -> (b n l c).

    With `context = w`, the head looks at w tokens on either side. Each dimension has its own weight for each neighbour:

        a = gelu(W z);   a + gelu(V sum_j n_j * a_{t+j}),   j = -w ... w

    A mixture has little room for which words stand next to each other in each instance. After the instances are taken
    apart, looking at neighbours costs little.
    """

    reads: Reads = "all"

    def __init__(self, dim: int, num_labels: int, *, context: int = 0, dropout: float = 0.1) -> None:
        super().__init__()
        self.context = context
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(dim, num_labels)
        if context:
            self.dense = nn.Linear(dim, dim)
            self.near = nn.Parameter(torch.full((2 * context + 1, dim), 1 / (2 * context + 1)))
            self.second = nn.Linear(dim, dim)

    def forward(self, z: Tensor) -> Tensor:
        logits: Tensor = self.out(self.dropout(self._with_neighbours(z) if self.context else z))
        return logits

    def _with_neighbours(self, z: Tensor) -> Tensor:
        a = F.gelu(self.dense(z))
        tokens = a.shape[2]
        padded = F.pad(a, (0, 0, self.context, self.context))
        near = padded[:, :, :tokens] * self.near[0]
        for j in range(1, 2 * self.context + 1):
            near = torch.addcmul(near, padded[:, :, j : j + tokens], self.near[j])
        return a + F.gelu(self.second(near))


class RetrievalHead(nn.Module):
    """Which word was here? (... d) -> (... v): one score for each of the encoder's own word vectors."""

    reads: Reads = "all"

    def __init__(self, dim: int, embedding_dim: int, vocab_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, embedding_dim)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, z: Tensor, words: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Score `words` (v e), or only those rows of it that `candidates` names."""
        bias: Tensor = self.bias
        if candidates is not None:
            words, bias = words[candidates], bias[candidates]
        scores: Tensor = self.dense(z) @ words.T + bias
        return scores
