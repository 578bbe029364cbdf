"""Drop-ins for the Hugging Face classes: same inputs, same outputs, one row an instance. Grouping happens inside.

Translates between `MuxConfig` and the plain keyword arguments of the parts, and adds Hugging Face's own losses.
"""

import inspect
import math
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import (
    MaskedLMOutput,
    ModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from datamux.backbones.transformer import TransformerBackbone
from datamux.bypass import Bypass
from datamux.demultiplexers import build_demultiplexer
from datamux.grouping import Filler
from datamux.heads import RetrievalHead, SequenceHead, TokenHead
from datamux.hub.config import POOLING, MuxConfig
from datamux.model import Encoded, Multiplexed
from datamux.multiplexers import build_multiplexer
from datamux.seeded import SeededModule


class Objective(Protocol):
    """What training asks of a model beyond its own loss. Called inside `forward`, so that several processes agree."""

    def __call__(
        self, model: "MuxPreTrainedModel", encoded: Encoded, inputs: dict[str, Tensor | None], output: ModelOutput
    ) -> Tensor: ...


class MuxPreTrainedModel(PreTrainedModel):
    """What the three models share: the heart, `group_size`, loading and saving.

    `objective` replaces the loss while the model is in training mode; it is not saved.
    """

    config_class = MuxConfig
    config: MuxConfig
    base_model_prefix = "mux"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    # The loss is a mean over the rows given: without this, Trainer scales it once more on several processes.
    accepts_loss_kwargs = False

    def __init__(self, config: MuxConfig) -> None:
        super().__init__(config)
        assert isinstance(config.backbone_config, PreTrainedConfig)
        backbone = TransformerBackbone(_build_encoder(config.backbone_config), config.mux_layer)
        n = config.num_instances
        self.mux = Multiplexed(
            backbone,
            build_multiplexer(
                config.multiplexer,
                n,
                backbone.embedding_dim,
                seed=config.seed,
                **(config.multiplexer_options or {}),
            ),
            build_demultiplexer(
                config.demultiplexer,
                n,
                backbone.dim,
                embedding_dim=backbone.embedding_dim,
                seed=config.seed,
                **(config.demultiplexer_options or {}),
            ),
        )
        dim = self.mux.demultiplexer.out_dim
        head = self.mux.head = self._build_head(config, dim)
        if config.bypass and head is not None:
            self.mux.bypass = Bypass(backbone.embedding_dim, dim, head.reads)  # type: ignore[arg-type]
        self.retrieval: RetrievalHead | None = None
        if config.retrieval_head:
            self.retrieval = RetrievalHead(dim, backbone.words.embedding_dim, backbone.words.num_embeddings)
        self.objective: Objective | None = None
        self.post_init()

    def _build_head(self, config: MuxConfig, dim: int) -> nn.Module | None:
        raise TypeError(f"{type(self).__name__} must define _build_head()")

    @property
    def backbone(self) -> TransformerBackbone:
        assert isinstance(self.mux.backbone, TransformerBackbone)
        return self.mux.backbone

    @property
    def group_size(self) -> int:
        """How many instances share a pass from now on: 1 to `config.num_instances`."""
        return self.mux.group_size

    @group_size.setter
    def group_size(self, group_size: int) -> None:
        self.mux.group_size = group_size

    @property
    def filler(self) -> Filler:
        """What unused slots hold from now on: "nothing", or "repeat" (the group's own rows, answers averaged)."""
        return self.mux.filler

    @filler.setter
    def filler(self, filler: Filler) -> None:
        self.mux.filler = filler

    def get_input_embeddings(self) -> nn.Embedding:
        return self.backbone.words

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.backbone.encoder.set_input_embeddings(value)

    def encode(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        group_size: int | None = None,
        filler: Filler | None = None,
    ) -> Encoded:
        """Group the rows, mix them, run the encoder once; `self.mux.read` then takes them apart."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        rows = inputs_embeds if input_ids is None else input_ids
        assert rows is not None
        extra = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return self.mux.encode(rows, attention_mask, group_size=group_size, filler=filler, **extra)

    def answer(self, encoded: Encoded) -> Tensor:
        """What the head says of each row: (i ...)."""
        head = self.mux.head
        assert isinstance(head, SequenceHead | TokenHead)
        return encoded.grouping.ungroup(head(self.mux.read_for_head(encoded)))

    def _finish(self, output: ModelOutput, encoded: Encoded, **inputs: Tensor | None) -> ModelOutput:
        """While training, let the objective have the last word on the loss."""
        if self.training and self.objective is not None:
            output.loss = self.objective(self, encoded, inputs, output)
        return output

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        # Linear layers that reach this are ours (the encoder starts its own): as torch starts them, by width.
        if isinstance(module, nn.Linear):
            init.kaiming_uniform_(module.weight, a=math.sqrt(5))
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, SeededModule):
            for name, value in module.initial_state().items():
                init.copy_(getattr(module, name), value)
        elif isinstance(module, RetrievalHead):
            init.zeros_(module.bias)
        elif isinstance(module, Bypass):
            init.zeros_(module.weight)
        else:
            super()._init_weights(module)


class MuxClassifier(MuxPreTrainedModel):
    """What the two classifiers share: everything but the head and the loss."""

    output_class: type[ModelOutput]

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} must define _loss()")

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        group_size: int | None = None,
        filler: Filler | None = None,
    ) -> ModelOutput:
        encoded = self.encode(input_ids, attention_mask, token_type_ids, inputs_embeds, group_size, filler)
        logits = self.answer(encoded)  # i c, or i l c
        loss = None if labels is None else self._loss(logits, labels)
        return self._finish(
            self.output_class(loss=loss, logits=logits),
            encoded,
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            labels=labels,
        )


class MuxForSequenceClassification(MuxClassifier):
    """A label a text, like `AutoModelForSequenceClassification`: single label, multi-label or regression."""

    output_class = SequenceClassifierOutput

    def _build_head(self, config: MuxConfig, dim: int) -> nn.Module | None:
        return SequenceHead(dim, config.num_labels, reads=POOLING[config.pooling], dropout=config.head_dropout)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return loss


class MuxForTokenClassification(MuxClassifier):
    """A label a token, like `AutoModelForTokenClassification`."""

    output_class = TokenClassifierOutput

    def _build_head(self, config: MuxConfig, dim: int) -> nn.Module | None:
        return TokenHead(dim, config.num_labels, context=config.head_context, dropout=config.head_dropout)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = self.loss_function(logits=logits, labels=labels, config=self.config)
        return loss


class MuxForRetrieval(MuxPreTrainedModel):
    """The warm-up task of the paper: say which word each instance has at each position. Logits are (i l v)."""

    def __init__(self, config: MuxConfig) -> None:
        config.retrieval_head = True
        super().__init__(config)

    def _build_head(self, config: MuxConfig, dim: int) -> nn.Module | None:
        return None

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        group_size: int | None = None,
        filler: Filler | None = None,
    ) -> MaskedLMOutput:
        encoded = self.encode(input_ids, attention_mask, token_type_ids, group_size=group_size, filler=filler)
        if self.training and self.objective is not None:
            # The objective picks the positions and words it scores: all of them at once would not fit in memory.
            return self._finish(
                MaskedLMOutput(), encoded, input_ids=input_ids, attention_mask=attention_mask, labels=labels
            )
        assert self.retrieval is not None
        z = self.mux.read(encoded, self.retrieval.reads)
        logits = encoded.grouping.ungroup(self.retrieval(z, self.backbone.words.weight))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits)


def _build_encoder(config: PreTrainedConfig) -> PreTrainedModel:
    """The encoder of `config` with new weights, without the pooling layer that only a plain classifier uses."""
    model_class = AutoModel._model_mapping[type(config)]
    options: dict[str, Any] = {}
    if "add_pooling_layer" in inspect.signature(model_class.__init__).parameters:
        options["add_pooling_layer"] = False
    encoder: PreTrainedModel = AutoModel.from_config(config, **options)
    return encoder
