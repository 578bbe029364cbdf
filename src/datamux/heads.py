"""What is asked of each demultiplexed instance. A head says what it reads; it does not know where that came from."""

import torch
from torch import Tensor, nn

from datamux.reads import Reads


class SequenceHead(nn.Module):
    """One row of logits an instance: (b n 1 d) -> (b n c)."""

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
    """One row of logits a token: (b n l d) -> (b n l c)."""

    reads: Reads = "all"

    def __init__(self, dim: int, num_labels: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(dim, num_labels)

    def forward(self, z: Tensor) -> Tensor:
        logits: Tensor = self.out(self.dropout(z))
        return logits


class RetrievalHead(nn.Module):
    """Which word stood here? (... d) -> (... v), scored against the encoder's own word vectors."""

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
