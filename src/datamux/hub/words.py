"""An encoder without any layer: one vector per word, plus one per pair of neighbouring words, as fastText has them.

    x_t = word[w_t] + pair[hash(w_{t-1}, w_t)]

There are far more pairs than rows in the table, so a pair finds its row by a hash, and some pairs share a row. A token
looks only at the token before it, so padding on the right changes nothing. It takes the place of a transformer in a
model of ours, which then answers from the mean of these vectors: very fast, and a fair rival of TF-IDF.
"""

from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput

MULTIPLIER = 1_000_003  # a prime, so that pairs spread over the whole table


@strict
class WordsConfig(PreTrainedConfig):
    """`pair_rows` is how many rows the table of pairs has; 0 leaves pairs out."""

    model_type = "datamux-words"

    vocab_size: int = 30_522
    hidden_size: int = 128
    pair_rows: int = 65_536
    num_hidden_layers: int = 0  # it has no layers, and so no heads; the names are those of every encoder
    num_attention_heads: int = 1
    intermediate_size: int = 128
    max_position_embeddings: int = 512  # no vector depends on the position; a text may be this long
    type_vocab_size: int = 2
    initializer_range: float = 0.5  # a mean over words must not be tiny: ten times smaller learned much more slowly
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.0


class WordsAndPairs(nn.Embedding):
    """Token ids (... l) -> vectors (... l d)."""

    def __init__(self, vocab_size: int, dim: int, pair_rows: int) -> None:
        super().__init__(vocab_size, dim)
        self.pair_rows = pair_rows
        if pair_rows:
            self.pairs = nn.Parameter(torch.zeros(pair_rows, dim))

    def forward(self, ids: Tensor) -> Tensor:
        vectors = super().forward(ids)
        if not self.pair_rows:
            return vectors
        before = F.pad(ids[..., :-1], (1, 0))
        return vectors + F.embedding((before * MULTIPLIER + ids) % self.pair_rows, self.pairs)


class WordsEncoder(PreTrainedModel):
    """Looks vectors up and returns them, with the interface of every Hugging Face encoder."""

    config_class = WordsConfig
    base_model_prefix = "words"

    def __init__(self, config: WordsConfig) -> None:
        super().__init__(config)
        self.words = WordsAndPairs(config.vocab_size, config.hidden_size, config.pair_rows)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.words

    def set_input_embeddings(self, value: nn.Module) -> None:
        assert isinstance(value, WordsAndPairs)
        self.words = value

    def forward(
        self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, **unused: Any
    ) -> BaseModelOutput:
        vectors = self.words(input_ids) if inputs_embeds is None else inputs_embeds
        return BaseModelOutput(last_hidden_state=self.dropout(vectors))

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, WordsAndPairs) and module.pair_rows:
            init.zeros_(module.pairs)  # a pair that was never seen says nothing
