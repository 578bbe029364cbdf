"""Any Hugging Face encoder, through its public doors alone: `get_input_embeddings()` and `inputs_embeds=`.

Word vectors are mixed; the encoder then adds positions and applies its LayerNorm once, to the mixture.
Text pairs: an encoder adds the vector of segment 0 to every position. What an instance's own segments differ from that
is added to its word vectors before mixing, so that each instance keeps its own segments and nothing is added twice.
"""

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from datamux.backbones.base import Backbone
from datamux.backbones.halves import split_at_layer


class TransformerBackbone(Backbone):
    """`mux_layer = m`: mix after the first m layers, which each instance runs alone."""

    def __init__(self, encoder: PreTrainedModel, mux_layer: int = 0) -> None:
        super().__init__()
        if getattr(encoder.config, "is_encoder_decoder", False):
            raise ValueError(
                f"{type(encoder).__name__} is an encoder-decoder; datamux multiplexes encoders: pass its encoder alone"
            )
        if any(getattr(module, "is_causal", False) for module in encoder.modules()):
            raise ValueError(
                f"{type(encoder).__name__} is a decoder, whose tokens see only those before them; "
                "datamux multiplexes encoders"
            )
        self.encoder = encoder
        self.dim = int(encoder.config.hidden_size)
        self.mux_layer = mux_layer
        self.embeds_deeply = mux_layer > 0
        self.embedding_dim = self.dim if mux_layer else self.words.embedding_dim
        self._halves = split_at_layer(encoder, mux_layer) if mux_layer else None
        self.max_tokens = _max_tokens(encoder)

    @property
    def words(self) -> nn.Embedding:
        """The encoder's word vectors (v e)."""
        words = self.encoder.get_input_embeddings()
        if not isinstance(words, nn.Embedding):
            raise ValueError(f"{type(self.encoder).__name__} has no table of word vectors to mix")
        return words

    @property
    def table(self) -> Tensor | None:
        words = self.words
        plain = type(words) is nn.Embedding and words.max_norm is None  # a kind of its own may scale, too
        return words.weight if plain and not self.embeds_deeply else None

    def embed(self, x: Tensor, mask: Tensor | None, **extra: Tensor) -> Tensor:
        vectors: Tensor = x if x.is_floating_point() else self.words(x)
        token_types = extra.get("token_type_ids")
        segments = None if token_types is None else _find_embedding(self.encoder, "token_type_embeddings")
        if segments is not None:
            vectors = vectors + (segments(token_types) - segments.weight[0])
        if self._halves is None:
            return vectors
        flat = self._run(self._halves.lower, vectors.flatten(0, 1), None if mask is None else mask.flatten(0, 1))
        return flat.view(*vectors.shape[:-1], self.dim)

    @property
    def upper(self) -> nn.Module:
        """What runs the mixture: the layers above `mux_layer`."""
        return self.encoder if self._halves is None else self._halves.upper

    def encode(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self._run(self.upper, x, mask)

    def _run(self, encoder: nn.Module, x: Tensor, mask: Tensor | None) -> Tensor:
        self._check_length(x)
        attention_mask = None if mask is None else mask.long()
        h: Tensor = encoder(inputs_embeds=x, attention_mask=attention_mask).last_hidden_state
        return h

    def _check_length(self, x: Tensor) -> None:
        # Under export and compile the length is a symbol, and asking would fix it.
        if torch.compiler.is_compiling() or self.max_tokens is None or x.shape[1] <= self.max_tokens:
            return
        raise ValueError(
            f"{x.shape[1]} positions (prefix included) are more than the {self.max_tokens} that "
            f"{type(self.encoder).__name__} has; tokenize with truncation=True and a smaller max_length"
        )


def _find_embedding(encoder: nn.Module, name: str) -> nn.Embedding | None:
    for path, module in encoder.named_modules():
        if path.rpartition(".")[2] == name and isinstance(module, nn.Embedding):
            return module
    return None


def _max_tokens(encoder: PreTrainedModel) -> int | None:
    """How many positions the encoder has a learned vector for; None where positions are relative."""
    positions = _find_embedding(encoder, "position_embeddings")
    if positions is None:
        return None
    # RoBERTa and its kin start counting after their padding row.
    first = 0 if positions.padding_idx is None else positions.padding_idx + 1
    return positions.num_embeddings - first
