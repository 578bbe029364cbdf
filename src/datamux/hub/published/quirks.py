"""What the published DataMUX code does differently from ours, as parts of a multiplexed model.

- Each row is embedded completely (words, positions, types, LayerNorm) before mixing, and the mixture a second time.
- The index tokens, their padding and the class token are ordinary words of RoBERTa's vocabulary.
- Padding is mixed and attended to like any token, so the length of a row matters.
- The demultiplexer has no output matrix, and the sentence head's activation is GELU.

A slot without a row still adds nothing, and the prefix always has one position per slot of the model. A smaller group
is therefore the same as a group with empty slots.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from datamux.backbones.transformer import TransformerBackbone
from datamux.demultiplexers.base import Demultiplexer
from datamux.demultiplexers.mlp import MlpDemultiplexer
from datamux.heads import RetrievalHead
from datamux.reads import Reads

CLASS_ID = 49_923  # stands before every row, or in place of its first token
PREFIX_ID = 50_000  # fills the prefix, except at the slot's own position, where the id is vocabulary - 2 - slot


class PublishedBackbone(TransformerBackbone):
    """RoBERTa, or BERT for MUX-PLM, embedding twice.

    `prefix_slots` is the length of the prefix; with 0 there is none, and the class id replaces the first token.
    `embed` adds the prefix, because positions are counted over the prefix and the row together.
    """

    def __init__(self, encoder: PreTrainedModel, prefix_slots: int, class_id: int = CLASS_ID) -> None:
        super().__init__(encoder)
        largest = max(class_id, PREFIX_ID if prefix_slots else 0)
        if encoder.config.vocab_size <= largest:
            raise ValueError(
                f"a published checkpoint uses the word ids up to {largest}, but this one has a vocabulary of "
                f"{encoder.config.vocab_size}; those on the Hub have 50265 words"
            )
        self.prefix_slots = prefix_slots
        self.class_id = class_id
        self.embeds_deeply = not prefix_slots  # mixing slot by slot on a CPU would leave padding out of the mixture

    def embed(self, x: Tensor, mask: Tensor | None, **extra: Tensor) -> Tensor:
        """Ids (b n l) -> (b n p+l d), prefix and class token included."""
        if x.is_floating_point():
            raise ValueError("a published checkpoint embeds whole rows itself: give input_ids, not inputs_embeds")
        if mask is not None:
            x = x.masked_fill(~mask, self.encoder.config.pad_token_id)
        ids = self._with_class_id(x)
        flat = ids.flatten(0, 1)
        self._check_length(flat)
        vectors: Tensor = self.encoder.embeddings(input_ids=flat)
        return vectors.view(*ids.shape, self.dim)

    def _with_class_id(self, x: Tensor) -> Tensor:
        class_id = torch.full_like(x[..., :1], self.class_id)
        if not self.prefix_slots:
            return torch.cat([class_id, x[..., 1:]], -1)
        slot = torch.arange(x.shape[1], device=x.device).unsqueeze(-1)  # n 1
        position = torch.arange(self.prefix_slots, device=x.device)
        prefix = torch.where(position == slot, self.encoder.config.vocab_size - 2 - slot, PREFIX_ID)  # n p
        return torch.cat([prefix.expand(x.shape[0], -1, -1), class_id, x], -1)

    def encode(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return super().encode(x, None)


class PublishedIndexDemultiplexer(Demultiplexer):
    """z_i = LN(gelu(W [p_i; h])) with p_i = h at prefix position i; W is split into its two halves."""

    def __init__(
        self, num_instances: int, dim: int, *, eps: float = 1e-5, embedding_dim: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(num_instances, dim, embedding_dim=embedding_dim, seed=seed)
        self.from_state = nn.Linear(dim, dim)
        self.from_slot = nn.Linear(dim, dim, bias=False)
        self.norm = nn.LayerNorm(dim, eps=eps)

    def prefix_length(self, slots: int) -> int:
        return self.num_instances + 1  # and the class token

    def add_prefix(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return x, whole_rows(x, mask)  # the backbone has added it

    def forward(self, h: Tensor, slots: int, reads: Reads = "all", mask: Tensor | None = None) -> Tensor:
        if reads != "first":
            return super().forward(h, slots, reads, mask)
        self._check(h, slots, reads)
        class_token = h[:, self.num_instances : self.num_instances + 1]
        return self.project(self.activations(class_token, h, slots))

    def activations(self, h: Tensor, prefix: Tensor, slots: int) -> Tensor:
        p = self.from_slot(prefix[:, :slots]).unsqueeze(2)  # b n 1 d
        return F.gelu(self.from_state(h).unsqueeze(1) + p)

    def project(self, a: Tensor) -> Tensor:
        z: Tensor = self.norm(a)
        return z


class PublishedMlpDemultiplexer(MlpDemultiplexer):
    """z_i = LN_i(gelu(W_i h + b_i)): every slot has a LayerNorm of its own."""

    def __init__(
        self, num_instances: int, dim: int, *, eps: float = 1e-5, embedding_dim: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(num_instances, dim, layers=1, embedding_dim=embedding_dim, seed=seed)
        self.eps = eps

    norm_weight: Tensor  # n d
    norm_bias: Tensor  # n d

    def initial_state(self) -> dict[str, Tensor]:
        shape = (self.num_instances, self.dim)
        return super().initial_state() | {"norm_weight": torch.ones(shape), "norm_bias": torch.zeros(shape)}

    def add_prefix(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return x, whole_rows(x, mask)

    def project(self, a: Tensor) -> Tensor:
        slots = a.shape[1]
        normed = F.layer_norm(a, (self.dim,), eps=self.eps)
        return normed * self.norm_weight[:slots, None] + self.norm_bias[:slots, None]


class PublishedHead(nn.Module):
    """out(LN(gelu(dense(z)))). A tagger with index tokens has only `out`; only MLP demultiplexing has the LayerNorm."""

    def __init__(self, dim: int, num_labels: int, *, reads: Reads, dense: bool, norm: bool, eps: float) -> None:
        super().__init__()
        self.reads: Reads = reads
        self.dense = nn.Linear(dim, dim) if dense else None
        self.norm = nn.LayerNorm(dim, eps=eps) if norm else None
        self.out = nn.Linear(dim, num_labels)

    def forward(self, z: Tensor) -> Tensor:
        """(b n r d) -> (b n c) for whole texts, (b n l c) for tokens."""
        if self.reads == "first":
            z = z.squeeze(2)
        logits: Tensor = self.out(_before_output(z, self.dense, self.norm))
        return logits


class PublishedRetrievalHead(RetrievalHead):
    """Scores words with a matrix of its own, not with the encoder's word vectors."""

    def __init__(self, dim: int, vocab_size: int, *, dense: bool, eps: float) -> None:
        nn.Module.__init__(self)
        self.before = nn.Linear(dim, dim) if dense else None
        self.norm = nn.LayerNorm(dim, eps=eps) if dense else None
        self.decoder = nn.Linear(dim, vocab_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, z: Tensor, words: Tensor, candidates: Tensor | None = None) -> Tensor:
        weight: Tensor = self.decoder.weight
        bias: Tensor = self.bias
        if candidates is not None:
            weight, bias = weight[candidates], bias[candidates]
        return F.linear(_before_output(z, self.before, self.norm), weight, bias)


def _before_output(z: Tensor, dense: nn.Linear | None, norm: nn.LayerNorm | None) -> Tensor:
    if dense is not None:
        z = F.gelu(dense(z))
    return z if norm is None else norm(z)


def whole_rows(x: Tensor, mask: Tensor | None) -> Tensor | None:
    """The mask of `x` (b n p+l d), True wherever a slot holds a row: its prefix and its padding are mixed as well."""
    return None if mask is None else mask.any(-1, keepdim=True).expand(x.shape[:3])
