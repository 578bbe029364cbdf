"""The Hugging Face side: configuration, models, Auto classes. Importing this package registers the models."""

from transformers import (
    AutoConfig,
    AutoModel,
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
from datamux.hub.published.models import (
    PublishedConfig,
    PublishedForRetrieval,
    PublishedForSequenceClassification,
    PublishedForTokenClassification,
)
from datamux.hub.words import WordsConfig, WordsEncoder

AutoConfig.register(WordsConfig.model_type, WordsConfig, exist_ok=True)
AutoModel.register(WordsConfig, WordsEncoder, exist_ok=True)
AutoConfig.register(MuxConfig.model_type, MuxConfig, exist_ok=True)
AutoModelForSequenceClassification.register(MuxConfig, MuxForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(MuxConfig, MuxForTokenClassification, exist_ok=True)
AutoModelForPreTraining.register(MuxConfig, MuxForRetrieval, exist_ok=True)
AutoConfig.register(PublishedConfig.model_type, PublishedConfig, exist_ok=True)
AutoModelForSequenceClassification.register(PublishedConfig, PublishedForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(PublishedConfig, PublishedForTokenClassification, exist_ok=True)
AutoModelForPreTraining.register(PublishedConfig, PublishedForRetrieval, exist_ok=True)

__all__ = [
    "MuxConfig",
    "MuxForRetrieval",
    "MuxForSequenceClassification",
    "MuxForTokenClassification",
    "MuxPreTrainedModel",
    "multiplex",
]
