"""`multiplex`: from a pretrained encoder to a multiplexed model with its weights."""

from dataclasses import fields
from typing import Any

import torch
from transformers import AutoModel, PreTrainedModel

from datamux.errors import check_choice
from datamux.hub.config import MuxConfig
from datamux.hub.models import (
    MuxForRetrieval,
    MuxForSequenceClassification,
    MuxForTokenClassification,
    MuxPreTrainedModel,
)

TASKS: dict[str, type[MuxPreTrainedModel]] = {
    "sequence-classification": MuxForSequenceClassification,
    "token-classification": MuxForTokenClassification,
    "retrieval": MuxForRetrieval,
}
_FROM_CLASSIFIER = ("id2label", "label2id", "problem_type")
_OPTIONS = {field.name for field in fields(MuxConfig)} - {"backbone_config", "num_instances"} | {"num_labels"}


def multiplex(
    model: str | PreTrainedModel,
    num_instances: int,
    *,
    task: str = "sequence-classification",
    **options: Any,
) -> MuxPreTrainedModel:
    """A multiplexed model on the weights of `model`: a name, a folder, or an encoder or classifier in memory.

    The encoder's weights are copied; multiplexer, demultiplexer and head are new and want training. The labels of a
    fine-tuned classifier are taken over. `options` go to `MuxConfig` (`multiplexer=`, `num_labels=`, `id2label=`, ...).
    """
    check_choice("task", task, TASKS)
    for option in options:
        check_choice("option", option, _OPTIONS)
    encoder = _load_encoder(model)
    if encoder.config.model_type == MuxConfig.model_type:
        raise ValueError("this model is multiplexed already; load it with its own from_pretrained")
    if not {"num_labels", "id2label", "label2id"} & options.keys():
        options = {name: getattr(encoder.config, name) for name in _FROM_CLASSIFIER} | options
    config = MuxConfig(backbone_config=encoder.config.to_dict(), num_instances=num_instances, **options)
    multiplexed = TASKS[task](config)
    pooler = {name for name in encoder.state_dict() if name.startswith("pooler.")}
    weights = {name: w for name, w in encoder.state_dict().items() if name not in pooler}
    multiplexed.backbone.encoder.load_state_dict(weights)
    multiplexed.eval()
    return multiplexed


def _load_encoder(model: str | PreTrainedModel) -> PreTrainedModel:
    """The encoder inside `model`, without a task head."""
    if isinstance(model, PreTrainedModel):
        base = model.base_model
        return base if isinstance(base, PreTrainedModel) else model
    encoder: PreTrainedModel = AutoModel.from_pretrained(model, dtype=torch.float32)
    return encoder
