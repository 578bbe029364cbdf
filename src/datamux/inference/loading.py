"""From a name to what runs: our own models, plain Hugging Face classifiers, exported files."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from datamux.grouping import Filler
from datamux.hub import MuxConfig, MuxForTokenClassification
from datamux.hub.loading import load_config, load_model, without_bars
from datamux.inference.exported import load_exported
from datamux.inference.runtime import Runtime, TorchRuntime
from datamux.zoo import find_model


def load_runtime(
    name: str,
    *,
    device: str | None = None,
    bf16: bool = False,
    compiled: bool = False,
    filler: Filler = "nothing",
) -> tuple[Runtime, Any, bool]:
    """(what runs, its configuration, whether it tags tokens)."""
    name = find_model(name)
    config = load_config(name)
    exported = load_exported(Path(name), config)
    if exported is not None:
        if bf16 or compiled or filler != "nothing" or device not in (None, "cpu"):
            raise ValueError(
                f"{name} is exported: half precision, compiling, fillers and devices are for the original model"
            )
        return exported, config, exported.token_level
    if config.model_type == MuxConfig.model_type:
        model: PreTrainedModel = load_model(name)
        token_level = isinstance(model, MuxForTokenClassification)
        if model.mux.head is None:
            raise ValueError(f"{name} has no task head yet: it is a warm-up; train it on a task first (datamux train)")
    else:
        token_level = any("TokenClassification" in kind for kind in config.architectures or ())
        auto = AutoModelForTokenClassification if token_level else AutoModelForSequenceClassification
        with without_bars():
            model = auto.from_pretrained(name, dtype=torch.float32)
    try:
        model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, AssertionError) as error:  # whichever torch has for an unknown and for an absent one
        raise ValueError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from error
    return TorchRuntime(model, bf16=bf16, compiled=compiled, filler=filler), config, token_level
