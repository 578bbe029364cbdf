"""`multiplex`: from a pretrained encoder to a multiplexed model with its weights."""

from dataclasses import fields
from typing import Any

from transformers import PreTrainedModel

from datamux.errors import check_choice
from datamux.hub.config import MuxConfig
from datamux.hub.frozen import frozen_config, load_classifier
from datamux.hub.loading import load_config, load_encoder
from datamux.hub.models import MODEL_CLASSES, MuxPreTrainedModel

_FROM_CLASSIFIER = ("id2label", "label2id", "problem_type")
_SET_HERE = {"backbone_config", "num_instances", "base_model", "base_config", "base_hash"}
_OPTIONS = {field.name for field in fields(MuxConfig)} - _SET_HERE | {"num_labels"}


def multiplex(
    model: str | PreTrainedModel,
    num_instances: int,
    *,
    task: str = "sequence-classification",
    frozen: bool = False,
    **options: Any,
) -> MuxPreTrainedModel:
    """A multiplexed model on the weights of `model`: a name, a folder, or an encoder or classifier in memory.

    The encoder's weights are copied; multiplexer, demultiplexer and head are new and want training. The labels of a
    fine-tuned classifier are taken over. `options` go to `MuxConfig` (`multiplexer=`, `num_labels=`, `id2label=`, ...).

    With `frozen`, `model` is a classifier that stays as it is, head included: only the new parts are trained and saved,
    and at group size 1 the classifier answers by itself.
    """
    check_choice("task", task, MODEL_CLASSES)
    for option in options:
        check_choice("option", option, _OPTIONS)
    if frozen:
        return _around_classifier(model, num_instances, MODEL_CLASSES[task], options)
    encoder = _encoder_inside(model) if isinstance(model, PreTrainedModel) else load_encoder(model)
    if isinstance(encoder.config, MuxConfig):
        raise ValueError("this model is multiplexed already; load it with its own from_pretrained")
    if not {"num_labels", "id2label", "label2id"} & options.keys():
        options = {name: getattr(encoder.config, name) for name in _FROM_CLASSIFIER} | options
    config = MuxConfig(backbone_config=encoder.config.to_dict(), num_instances=num_instances, **options)
    multiplexed = MODEL_CLASSES[task](config)
    pooler = {name for name in encoder.state_dict() if name.startswith("pooler.")}
    weights = {name: w for name, w in encoder.state_dict().items() if name not in pooler}
    multiplexed.backbone.encoder.load_state_dict(weights)
    multiplexed.eval()
    return multiplexed


def _around_classifier(
    model: str | PreTrainedModel, num_instances: int, model_class: type[MuxPreTrainedModel], options: dict[str, Any]
) -> MuxPreTrainedModel:
    if model_class.classifier_auto is None:
        raise ValueError("frozen=True keeps a classifier as it is, so it has no retrieval task; choose another task")
    if isinstance(model, str):
        load_config(model)  # a mistyped name is refused at once
    classifier = load_classifier(model, model_class.classifier_auto) if isinstance(model, str) else model
    name = model if isinstance(model, str) else classifier.config.name_or_path
    if not name:
        raise ValueError(
            "a frozen model is saved with the name of its classifier: save the classifier first, and give its folder"
        )
    if not {"num_labels", "id2label", "label2id"} & options.keys():
        options = {name: getattr(classifier.config, name) for name in _FROM_CLASSIFIER} | options
    multiplexed = model_class(frozen_config(classifier, name, num_instances, **options))
    multiplexed.take_classifier(classifier)
    multiplexed.eval()
    return multiplexed


def _encoder_inside(model: PreTrainedModel) -> PreTrainedModel:
    """The encoder of a model in memory, without a task head."""
    base = model.base_model
    return base if isinstance(base, PreTrainedModel) else model
