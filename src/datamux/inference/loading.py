"""From the name of a model to something that runs it: ours, plain Hugging Face classifiers, and exported files."""

from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from datamux.grouping import Filler
from datamux.hub import MuxConfig
from datamux.hub.loading import auto_classifier, load_classifier_with, load_config, load_model, tags_tokens
from datamux.inference.exported import load_exported
from datamux.inference.preferences import read_preferences
from datamux.inference.runtime import Runtime, TorchRuntime
from datamux.zoo import find_model

WEIGHTS = "model.safetensors"


def load_runtime(
    name: str,
    *,
    device: str | None = None,
    bf16: bool = False,
    compiled: bool = False,
    filler: Filler | None = None,
    original: bool = False,
) -> tuple[Runtime, Any, bool]:
    """(the runtime, the model's configuration, whether the model tags tokens).

    Without a `filler`, unused slots hold what the model says, which is nothing unless it was made for more. `original`
    takes the weights that an exported model was made from, if they are in the same folder.
    """
    name = find_model(name)
    config = load_config(name)
    has_weights = (Path(name) / WEIGHTS).exists()
    exported = None if original and has_weights else load_exported(Path(name), config)
    bf16 = bf16 or (exported is None and read_preferences(Path(name)).bf16)
    if exported is not None:
        if bf16 or compiled or filler not in (None, exported.filler) or device not in (None, "cpu"):
            raise ValueError(
                f"{name} is exported: half precision, compiling, fillers and devices need the original model"
            )
        return exported, config, exported.token_level
    if isinstance(config, MuxConfig):
        model: PreTrainedModel = load_model(name)
        if model.mux.head is None:
            raise ValueError(
                f"{name} has no task head, because it is a warm-up: train it on a task first (datamux train)"
            )
    else:
        model = load_classifier_with(auto_classifier(tags_tokens(config)), name)
    try:
        model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, AssertionError) as error:  # torch raises either, for an unknown or a missing device
        raise ValueError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from error
    return TorchRuntime(model, bf16=bf16, compiled=compiled, filler=filler), config, tags_tokens(model)
