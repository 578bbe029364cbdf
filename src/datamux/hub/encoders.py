"""The configuration of a new encoder, although each family of encoders has its own names for the same settings."""

import logging
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

logger = logging.getLogger(__name__)
BERT_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")  # the names in most families
DROPOUTS = {
    "distilbert": ("dropout", "attention_dropout"),
    "modernbert": ("embedding_dropout", "attention_dropout", "mlp_dropout"),
}


def new_encoder_config(
    architecture: str,
    *,
    vocab_size: int,
    hidden: int,
    layers: int,
    heads: int,
    max_positions: int = 512,
    dropout: float = 0.1,
) -> PreTrainedConfig:
    """The configuration of an encoder with new weights. `architecture` is a Hugging Face model type, such as "bert"."""
    config: PreTrainedConfig = AutoConfig.for_model(
        architecture,
        vocab_size=vocab_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        max_position_embeddings=max_positions,
    )
    set_dropout(config, dropout)
    return config


def set_dropout(config: PreTrainedConfig, dropout: float) -> None:
    """Set all dropout rates of the encoder."""
    for name in DROPOUTS.get(config.model_type, BERT_DROPOUTS):
        if hasattr(config, name):
            setattr(config, name, dropout)
        else:
            logger.warning("model.dropout does not reach %s: it has no %s", config.model_type, name)


def encoder_sizes(config: Any) -> dict[str, int]:
    """Layers, width, heads and words of an encoder, by the names of `new_encoder_config`."""
    return {
        "layers": config.num_hidden_layers,
        "hidden": config.hidden_size,
        "heads": config.num_attention_heads,
        "vocab_size": config.vocab_size,
    }
