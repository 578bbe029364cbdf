"""The Hugging Face side: configuration, models, Auto classes. Importing this registers the models."""

from transformers import (
    AutoConfig,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from datamux.hub.config import MuxConfig
from datamux.hub.models import (
    MuxForRetrieval,
    MuxForSequenceClassification,
    MuxForTokenClassification,
    MuxPreTrainedModel,
)
from datamux.hub.multiplex import multiplex

AutoConfig.register(MuxConfig.model_type, MuxConfig, exist_ok=True)
AutoModelForSequenceClassification.register(MuxConfig, MuxForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(MuxConfig, MuxForTokenClassification, exist_ok=True)
AutoModelForPreTraining.register(MuxConfig, MuxForRetrieval, exist_ok=True)

__all__ = [
    "MuxConfig",
    "MuxForRetrieval",
    "MuxForSequenceClassification",
    "MuxForTokenClassification",
    "MuxPreTrainedModel",
    "multiplex",
]
