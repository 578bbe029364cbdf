"""A plain classifier that stays as it is, inside a multiplexed model: only what is around it is trained and saved.

Its encoder runs the mixtures, and its own head answers for what the demultiplexer takes out of them. At group size 1
the classifier answers by itself, so a single text gets bit for bit the answer that it gave before. The saved model
has only the name or folder of the classifier, in `config.base_model`, and a hash of its weights, in `config.base_hash`.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel

from datamux.backbones.halves import without_layers
from datamux.hub.config import MuxConfig
from datamux.reads import Reads
from datamux.zoo import find_model


class ClassifierHead(nn.Module):
    """The head of a Hugging Face classifier, for states from elsewhere. It has no weights of its own."""

    def __init__(self, classifier: PreTrainedModel, reads: Reads) -> None:
        super().__init__()
        self.reads: Reads = reads
        self._views = (without_layers(classifier),)  # a tuple, so that the classifier's weights are not counted twice

    def forward(self, z: Tensor) -> Tensor:
        """(b n 1 d) -> (b n c) for whole texts, (b n l d) -> (b n l c) for tokens."""
        logits: Tensor = self._views[0](inputs_embeds=z.flatten(0, 1)).logits
        return logits.view(*z.shape[:2], *logits.shape[1:])


def base_model_of(folder: Path) -> str:
    """The classifier that the model in a folder was trained around, by its name or folder; empty if there is none."""
    try:
        return str(json.loads((folder / "config.json").read_text()).get("base_model") or "")
    except (OSError, ValueError):
        return ""


def is_mux(config: PreTrainedConfig) -> bool:
    return isinstance(config, MuxConfig)


def build_frozen_classifier(config: MuxConfig, auto: Any) -> PreTrainedModel | None:
    """The classifier of a configuration, with new weights and frozen; None if the configuration names none."""
    if not config.base_model:
        return None
    if auto is None:
        raise ValueError("a frozen model answers a task: it has no retrieval warm-up")
    assert config.base_config is not None
    base_config = CONFIG_MAPPING[config.base_config["model_type"]].from_dict(config.base_config)
    classifier: PreTrainedModel = auto.from_config(base_config)
    classifier.requires_grad_(False)
    return classifier.eval()


def load_classifier(name: str, auto: Any) -> PreTrainedModel:
    """The classifier that a frozen model needs, by its name or folder, in full precision."""
    try:
        classifier: PreTrainedModel = auto.from_pretrained(find_model(name), dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise FileNotFoundError(
            f"this model needs the classifier that it was trained around, {name}, which cannot be loaded: put it back, "
            "or write its new place into base_model in config.json"
        ) from error
    return classifier.eval()


def check_same_weights(config: MuxConfig, classifier: PreTrainedModel) -> str:
    """The hash of a classifier's weights; an error if the model was trained around others.

    The new parts fit only the weights that they were trained around. Models that were saved without a hash are not
    checked.
    """
    found = hash_of_weights(classifier)
    if config.base_hash not in ("", found):
        raise ValueError(
            f"the classifier {config.base_model} has other weights now than when this model was trained around it: put "
            'the former weights back, or train this model again (to load it all the same, set base_hash to "" in its '
            "config.json)"
        )
    return found


def hash_of_weights(model: nn.Module) -> str:
    """Of the numbers and shapes, in full precision; names may differ between versions of transformers."""
    found = sha256()
    for weight in model.parameters():
        found.update(str(tuple(weight.shape)).encode())
        found.update(weight.detach().float().cpu().contiguous().numpy().data)
    return found.hexdigest()


def frozen_config(classifier: PreTrainedModel, name: str, num_instances: int, **options: Any) -> MuxConfig:
    """The configuration of a multiplexed model around a classifier, which is found by `name`."""
    config = classifier.config
    if is_mux(config):
        if config.num_instances > 1 or config.base_model:
            raise ValueError(f"{name} is multiplexed already; freezing needs a plain classifier")
        head = {"pooling": config.pooling, "head_context": config.head_context}
    else:
        head = {"pooling": "first", "head_context": 0}
    return MuxConfig(
        base_model=str(Path(name).resolve()) if Path(name).is_dir() else name,
        base_config=config.to_dict(),
        backbone_config=encoder_of(classifier).config.to_dict(),
        num_instances=num_instances,
        **(options | head),
    )


def encoder_of(classifier: PreTrainedModel) -> PreTrainedModel:
    encoder: PreTrainedModel = classifier.mux.backbone.encoder if is_mux(classifier.config) else classifier.base_model
    return encoder


def head_of(classifier: PreTrainedModel, reads: Reads) -> nn.Module:
    """The head of a classifier; `reads` is what a Hugging Face head reads, ours say so themselves."""
    return classifier.mux.head if is_mux(classifier.config) else ClassifierHead(classifier, reads)


def plain_inputs(plain: PreTrainedModel, inputs: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
    """What a plain model takes of some inputs: token types only if it has them."""
    names = ["input_ids", "attention_mask", "inputs_embeds"]
    if is_mux(plain.config) or getattr(plain.config, "type_vocab_size", 0) > 1:
        names.append("token_type_ids")
    return {name: value for name in names if (value := inputs.get(name)) is not None}
