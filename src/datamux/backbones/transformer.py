"""Any Hugging Face encoder, used only through its public interface: `get_input_embeddings()` and `inputs_embeds=`.

Word vectors are mixed; the encoder then adds positions and applies its LayerNorm once, to the mixture.
Text pairs: an encoder adds the vector of segment 0 to every position. Before mixing, we add to each word vector the
difference between its own segment's vector and that of segment 0. So each instance keeps its segments, and nothing is
added twice.
"""

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from datamux.backbones.base import Backbone
from datamux.backbones.halves import split_at_layer
from datamux.backbones.low_rank import LowRankUpdate, make_updates, updated_view


class TransformerBackbone(Backbone):
    """With `mux_layer = m`, each instance runs through the first m layers by itself, and is mixed after them.

    With `low_rank = r`, the layers that run a mixture of several instances have updates of rank r (see low_rank.py).
    """

    def __init__(self, encoder: PreTrainedModel, mux_layer: int = 0, *, low_rank: int = 0, seed: int = 0) -> None:
        super().__init__()
        if getattr(encoder.config, "is_encoder_decoder", False):
            raise ValueError(
                f"{type(encoder).__name__} is an encoder-decoder; datamux multiplexes encoders: pass only its encoder"
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
        self.updates = nn.ModuleDict()
        self._updated: tuple[nn.Module, ...] = ()  # a tuple, so that the weights of the view are not saved again
        if low_rank:
            updates = make_updates(self.upper, low_rank, seed=seed)
            self.updates.update({path.replace(".", "_"): update for path, update in updates.items()})
            self._paths = tuple(updates)
            self.renew_view()
        self.max_tokens = _max_tokens(encoder)

    def renew_view(self) -> None:
        """Make the updated view again: of settings of the encoder's modules it has copies, such as checkpointing."""
        if self.updates:
            found = zip(self._paths, self.updates.values(), strict=True)
            updates = {path: update for path, update in found if isinstance(update, LowRankUpdate)}
            self._updated = (updated_view(self.upper, updates),)

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
        looks_up = type(words) is nn.Embedding and words.max_norm is None  # a subclass may also scale
        looks_up = looks_up and type(self).embed is TransformerBackbone.embed
        return words.weight if looks_up and not self.embeds_deeply else None

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
        """The network that runs the mixture: the layers above `mux_layer`."""
        return self.encoder if self._halves is None else self._halves.upper

    def encode(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self._run(self.upper, x, mask)

    def encode_mixture(self, x: Tensor, mask: Tensor | None, slots: int) -> Tensor:
        if slots == 1 or not self._updated:
            return self.encode(x, mask)
        return self._run(self._updated[0], x, mask)

    def train(self, mode: bool = True) -> "TransformerBackbone":
        super().train(mode)
        for view in self._updated:
            view.train(mode)
        return self

    def _run(self, encoder: nn.Module, x: Tensor, mask: Tensor | None) -> Tensor:
        self._check_length(x)
        attention_mask = None if mask is None else mask.long()
        h: Tensor = encoder(inputs_embeds=x, attention_mask=attention_mask).last_hidden_state
        return h

    def _check_length(self, x: Tensor) -> None:
        # Under export and compile the length is a symbol, and comparing it would fix it to one value.
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
    """How many positions the encoder has learned vectors for; None if it has none, so that any length is allowed."""
    positions = _find_embedding(encoder, "position_embeddings")
    if positions is None:
        return None
    # RoBERTa and its relatives start counting positions after the row for padding.
    first = 0 if positions.padding_idx is None else positions.padding_idx + 1
    return positions.num_embeddings - first
