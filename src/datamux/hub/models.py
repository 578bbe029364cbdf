"""Drop-ins for the Hugging Face classes: the same inputs and outputs, one row per instance. Grouping happens inside.

Translates between `MuxConfig` and the plain keyword arguments of the parts, and adds Hugging Face's own losses.
"""

import inspect
import math
import re
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import initialization as init
from transformers.modeling_outputs import MaskedLMOutput, ModelOutput, SequenceClassifierOutput, TokenClassifierOutput
from transformers.utils import can_return_tuple

from datamux.backbones.transformer import TransformerBackbone
from datamux.grouping import Filler, in_lone_groups
from datamux.heads import RetrievalHead, SequenceHead, TokenHead
from datamux.hub.config import POOLING, MuxConfig
from datamux.hub.frozen import (
    build_frozen_classifier,
    check_same_weights,
    encoder_of,
    head_of,
    load_classifier,
    plain_inputs,
)
from datamux.model import Encoded, Multiplexed
from datamux.seeded import SeededModule


class Objective(Protocol):
    """A training loss that replaces the model's own. It is called inside `forward`, so that several processes agree."""

    def __call__(
        self, model: "MuxPreTrainedModel", encoded: Encoded, inputs: dict[str, Tensor | None], output: ModelOutput
    ) -> Tensor: ...


class MuxPreTrainedModel(PreTrainedModel):
    """What the three models share: the heart, `group_size`, loading and saving.

    `objective` replaces the loss while the model is in training mode; it is not saved. `frozen_classifier` is that of a
    frozen model (see frozen.py).
    """

    config_class = MuxConfig
    config: MuxConfig
    base_model_prefix = "mux"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    # The loss is already a mean over the rows. Without this line, Trainer would scale it again on several processes.
    accepts_loss_kwargs = False
    classifier_auto: ClassVar[Any] = None  # the Auto class of classifiers for the same task

    def __init__(self, config: MuxConfig) -> None:
        super().__init__(config)
        self.frozen_classifier = build_frozen_classifier(config, self.classifier_auto)
        backbone = self._build_backbone(config)
        width = backbone.embedding_dim
        multiplexer = config.build_multiplexer(width)
        self.mux = Multiplexed(backbone, multiplexer, config.build_demultiplexer(backbone.dim, width))
        dim = self.mux.demultiplexer.out_dim
        self.mux.head = self._build_head(config, dim)
        self.retrieval: RetrievalHead | None = None
        if config.retrieval_head:
            self.retrieval = self._build_retrieval(config, dim, backbone.words)
        self.objective: Objective | None = None
        self._leave_out_frozen_classifier()
        self.post_init()

    def _build_backbone(self, config: MuxConfig) -> TransformerBackbone:
        assert isinstance(config.backbone_config, PreTrainedConfig)
        encoder = (
            build_encoder(config.backbone_config)
            if self.frozen_classifier is None
            else encoder_of(self.frozen_classifier)
        )
        return TransformerBackbone(encoder, config.mux_layer, low_rank=config.low_rank, seed=config.seed)

    def _leave_out_frozen_classifier(self) -> None:
        """Do not save the weights of a frozen classifier, and do not expect them in a file."""
        if self.frozen_classifier is None:
            return
        known = {id(weight) for weight in self.frozen_classifier.state_dict(keep_vars=True).values()}
        names = {name for name, weight in self.state_dict(keep_vars=True).items() if id(weight) in known}
        self._keys_to_ignore_on_save = names
        self._keys_to_ignore_on_load_missing = {f"^{re.escape(name)}$" for name in names}

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        found = super().from_pretrained(*args, **kwargs)
        model = found[0] if isinstance(found, tuple) else found
        if model.frozen_classifier is not None:
            model.take_classifier(load_classifier(model.config.base_model, cls.classifier_auto))
        return found

    def take_classifier(self, classifier: PreTrainedModel) -> None:
        """Take over the weights of a classifier that stays as it is. If the model knows others, that is an error."""
        assert self.frozen_classifier is not None
        self.frozen_classifier.load_state_dict(classifier.state_dict())
        self.config.base_hash = check_same_weights(self.config, self.frozen_classifier)
        self.frozen_classifier.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> "MuxPreTrainedModel":
        """As in torch; a frozen classifier stays in evaluation mode, without dropout."""
        super().train(mode)
        if self.frozen_classifier is not None:
            for frozen in (self.frozen_classifier, self.mux.backbone, self.mux.head):
                if frozen is not None:
                    frozen.eval()
        return self

    def _set_gradient_checkpointing(self, *args: Any, **kwargs: Any) -> None:
        """As in transformers, which does not know the view that runs mixtures with low-rank updates."""
        super()._set_gradient_checkpointing(*args, **kwargs)
        self.backbone.renew_view()

    def _build_head(self, config: MuxConfig, dim: int) -> nn.Module | None:
        raise TypeError(f"{type(self).__name__} must define _build_head()")

    def _build_retrieval(self, config: MuxConfig, dim: int, words: nn.Embedding) -> RetrievalHead:
        return RetrievalHead(dim, words.embedding_dim, words.num_embeddings)

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
        """Group the rows, mix them, and run the encoder once per group; `self.mux.answer` then takes them apart."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        rows = inputs_embeds if input_ids is None else input_ids
        assert rows is not None
        extra = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return self.mux.encode(rows, attention_mask, group_size=group_size, filler=filler, **extra)

    def _finish(self, output: ModelOutput, encoded: Encoded, **inputs: Tensor | None) -> ModelOutput:
        """While training, replace the loss by the objective's, if there is one."""
        if self.training and self.objective is not None:
            output.loss = self.objective(self, encoded, inputs, output)
        return output

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        # These linear layers are ours: the encoder initialises its own. Weights start as in torch, and biases at zero.
        if isinstance(module, nn.Linear):
            init.kaiming_uniform_(module.weight, a=math.sqrt(5))
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, SeededModule):
            for name, value in module.initial_state().items():
                init.copy_(getattr(module, name), value)
        elif isinstance(module, RetrievalHead):
            init.zeros_(module.bias)
        else:
            super()._init_weights(module)


class MuxClassifier(MuxPreTrainedModel):
    """What the two classifiers share: everything but the head and the loss."""

    output_class: type[ModelOutput]

    def _is_alone(self, group_size: int | None, filler: Filler | None) -> bool:
        """Whether every row has a pass to itself, with nothing in the other slots."""
        size = self.group_size if group_size is None else group_size
        return size == 1 and (filler or self.filler) == "nothing"

    def _lone_rows(
        self, given: dict[str, Tensor | None], group_size: int | None, filler: Filler | None
    ) -> tuple[Tensor, Tensor] | None:
        """(i) which rows have no neighbour at a group size above 1, and which are in their groups; None without any.

        Only a model that runs another network for single rows asks, and not in training.
        """
        size = self.group_size if group_size is None else group_size
        same_network = self.frozen_classifier is None and not self.config.low_rank
        rows = given["input_ids"] if given["inputs_embeds"] is None else given["inputs_embeds"]
        if same_network or self.training or size <= 1 or rows is None or (filler or self.filler) != "nothing":
            return None
        mask = given["attention_mask"]
        occupied = torch.ones(len(rows), dtype=torch.bool, device=rows.device) if mask is None else mask.bool().any(-1)
        apart = in_lone_groups(occupied, size)
        return (apart & occupied, apart) if bool(apart.any()) else None

    def _answer_apart(
        self, given: dict[str, Tensor | None], lone: Tensor, apart: Tensor, group_size: int | None
    ) -> Tensor:
        """The logits of lone rows, as at group size 1, and of all rows that are not in their groups."""

        def logits_of(some: Tensor, size: int | None) -> Tensor:
            rows = {name: x[some] for name, x in given.items() if x is not None}
            found: Tensor = self(**rows, group_size=size).logits
            return found

        found = logits_of(lone, 1)
        logits = found.new_zeros(len(lone), *found.shape[1:])
        logits[lone] = found
        if not bool(apart.all()):
            logits[~apart] = logits_of(~apart, group_size)
        return logits

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
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
        lone = self._lone_rows(given | {"inputs_embeds": inputs_embeds}, group_size, filler)
        if lone is not None:
            logits = self._answer_apart(given | {"inputs_embeds": inputs_embeds}, *lone, group_size)
            return self.output_class(loss=None if labels is None else self._loss(logits, labels), logits=logits)
        if self.frozen_classifier is not None and self._is_alone(group_size, filler):
            logits = self.frozen_classifier(
                **plain_inputs(self.frozen_classifier, given | {"inputs_embeds": inputs_embeds})
            ).logits
            return self.output_class(loss=None if labels is None else self._loss(logits, labels), logits=logits)
        encoded = self.encode(input_ids, attention_mask, token_type_ids, inputs_embeds, group_size, filler)
        logits = self.mux.answer(encoded)  # i c, or i l c
        loss = None if labels is None else self._loss(logits, labels)
        return self._finish(self.output_class(loss=loss, logits=logits), encoded, **given, labels=labels)


class MuxForSequenceClassification(MuxClassifier):
    """One label per text, like `AutoModelForSequenceClassification`: single label, multi-label or regression."""

    output_class = SequenceClassifierOutput
    classifier_auto = AutoModelForSequenceClassification

    def _build_head(self, config: MuxConfig, dim: int) -> nn.Module | None:
        if self.frozen_classifier is not None:
            return head_of(self.frozen_classifier, "first")
        return SequenceHead(dim, config.num_labels, reads=POOLING[config.pooling], dropout=config.head_dropout)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return loss


class MuxForTokenClassification(MuxClassifier):
    """One label per token, like `AutoModelForTokenClassification`."""

    output_class = TokenClassifierOutput
    classifier_auto = AutoModelForTokenClassification

    def _build_head(self, config: MuxConfig, dim: int) -> nn.Module | None:
        if self.frozen_classifier is not None:
            return head_of(self.frozen_classifier, "all")
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
            # The objective chooses which positions and words to score: all of them together would not fit in memory.
            given = {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}
            return self._finish(MaskedLMOutput(), encoded, **given)
        assert self.retrieval is not None
        z = self.mux.read_rows(encoded, self.retrieval.reads)
        logits = self.retrieval(z, self.backbone.words.weight)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits)


def build_encoder(config: PreTrainedConfig) -> PreTrainedModel:
    """The encoder of `config` with new weights, without the pooling layer that only a plain classifier uses."""
    model_class = AutoModel._model_mapping[type(config)]
    options: dict[str, Any] = {}
    if "add_pooling_layer" in inspect.signature(model_class.__init__).parameters:
        options["add_pooling_layer"] = False
    encoder: PreTrainedModel = AutoModel.from_config(config, **options)
    return encoder


MODEL_CLASSES: dict[str, type[MuxPreTrainedModel]] = {
    "sequence-classification": MuxForSequenceClassification,
    "token-classification": MuxForTokenClassification,
    "retrieval": MuxForRetrieval,
}
