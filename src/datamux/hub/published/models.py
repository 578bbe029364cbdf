"""Models of published checkpoints: our classes with the parts of `quirks.py`. They save and load like all others."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import PreTrainedConfig

from datamux.backbones.transformer import TransformerBackbone
from datamux.demultiplexers import Demultiplexer
from datamux.heads import RetrievalHead
from datamux.hub.config import MuxConfig
from datamux.hub.models import (
    MuxForRetrieval,
    MuxForSequenceClassification,
    MuxForTokenClassification,
    MuxPreTrainedModel,
    build_encoder,
)
from datamux.hub.published.contextual import PublishedContextual
from datamux.hub.published.mux_plm import PublishedKeyDemultiplexer
from datamux.hub.published.quirks import (
    CLASS_ID,
    PublishedBackbone,
    PublishedHead,
    PublishedIndexDemultiplexer,
    PublishedMlpDemultiplexer,
    PublishedRetrievalHead,
)
from datamux.multiplexers import MULTIPLEXERS, Multiplexer

PUBLISHED_DEMULTIPLEXERS: dict[str, Callable[..., Demultiplexer]] = {
    "published_index": PublishedIndexDemultiplexer,
    "published_mlp": PublishedMlpDemultiplexer,
    "published_key": PublishedKeyDemultiplexer,
}
PUBLISHED_MULTIPLEXERS: dict[str, Callable[..., Multiplexer]] = {"published_contextual": PublishedContextual}


@strict
class PublishedConfig(MuxConfig):
    """What a model of a published checkpoint is built from, in the words of `MuxConfig`, and three of its own.

    - `muxing_variant`: what the checkpoint calls its multiplexer. Keys of every kind come from the checkpoint.
    - `filler`: what unused slots hold unless the caller chooses. These models were trained only with full groups, so
        the default repeats the group's own rows.
    - `padded_length`: texts are cut, and rows padded, to this many tokens before they reach the model. The model
        attends to padding, so it should see as much as in training.
    """

    model_type = "datamux-published"
    multiplexers: ClassVar[Mapping[str, Callable[..., Multiplexer]]] = MULTIPLEXERS | PUBLISHED_MULTIPLEXERS
    demultiplexers: ClassVar[Mapping[str, Callable[..., Demultiplexer]]] = PUBLISHED_DEMULTIPLEXERS
    vectors_held: ClassVar[int] = 4  # while rows are embedded: words, positions, their sum, and after LayerNorm

    demultiplexer: str = "published_index"
    pooling: str = "first"
    muxing_variant: str = "gaussian_hadamard"
    filler: str = "repeat"
    padded_length: int | None = None

    @property
    def uses_prefix(self) -> bool:
        return self.demultiplexer == "published_index"

    @property
    def class_id(self) -> int:
        """The id of the class token: in MUX-PLM it is BERT's [CLS]."""
        return 101 if self.demultiplexer == "published_key" else CLASS_ID

    @property
    def layer_norm_eps(self) -> float:
        assert isinstance(self.backbone_config, PreTrainedConfig)
        return float(self.backbone_config.layer_norm_eps)

    def build_multiplexer(self, dim: int) -> Multiplexer:
        if self.multiplexer not in PUBLISHED_MULTIPLEXERS:
            return super().build_multiplexer(dim)
        build = PUBLISHED_MULTIPLEXERS[self.multiplexer]
        return build(self.num_instances, dim, seed=self.seed, **(self.multiplexer_options or {}))

    def build_demultiplexer(self, dim: int, embedding_dim: int | None = None) -> Demultiplexer:
        options = {"eps": self.layer_norm_eps} | (self.demultiplexer_options or {})
        build = self.demultiplexers[self.demultiplexer]
        return build(self.num_instances, dim, embedding_dim=embedding_dim, seed=self.seed, **options)


class PublishedModel(MuxPreTrainedModel):
    """What the three models share: the backbone, the default filler, and a retrieval head with its own words."""

    config_class = PublishedConfig
    config: PublishedConfig

    def __init__(self, config: PublishedConfig) -> None:
        super().__init__(config)
        self.filler = "repeat" if config.filler == "repeat" else "nothing"

    def _build_backbone(self, config: Any) -> TransformerBackbone:
        prefix_slots = config.num_instances if config.uses_prefix else 0
        return PublishedBackbone(build_encoder(config.backbone_config), prefix_slots, config.class_id)

    def _build_retrieval(self, config: Any, dim: int, words: nn.Embedding) -> RetrievalHead:
        dense = config.demultiplexer == "published_mlp"
        return PublishedRetrievalHead(dim, words.num_embeddings, dense=dense, eps=config.layer_norm_eps)


class PublishedForSequenceClassification(PublishedModel, MuxForSequenceClassification):
    """One label per text."""

    def _build_head(self, config: Any, dim: int) -> nn.Module:
        return PublishedHead(
            dim,
            config.num_labels,
            reads="first",
            dense=config.demultiplexer != "published_key",
            norm=config.demultiplexer == "published_mlp",
            eps=config.layer_norm_eps,
        )


class PublishedForTokenClassification(PublishedModel, MuxForTokenClassification):
    """One label per token."""

    def _build_head(self, config: Any, dim: int) -> nn.Module:
        deep = config.demultiplexer == "published_mlp"
        return PublishedHead(dim, config.num_labels, reads="all", dense=deep, norm=deep, eps=config.layer_norm_eps)


class PublishedForRetrieval(PublishedModel, MuxForRetrieval):
    """Which word each instance has at each position. The demultiplexer is the retrieval head's own."""


PUBLISHED_CLASSES: dict[str, type[PublishedModel]] = {
    "sequence-classification": PublishedForSequenceClassification,
    "token-classification": PublishedForTokenClassification,
    "retrieval": PublishedForRetrieval,
}
