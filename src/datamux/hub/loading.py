"""Configuration, tokenizer and model by name: a shipped model (`datamux ls models`), a folder, or a name on the Hub."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.utils import logging

from datamux.errors import check_choice
from datamux.hub.config import MuxConfig
from datamux.hub.models import MuxPreTrainedModel
from datamux.hub.multiplex import TASKS
from datamux.zoo import find_model, shipped_models


@contextmanager
def without_bars() -> Iterator[None]:
    """Weights load in a moment: no progress bar for that."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextmanager
def named(name: str | Path) -> Iterator[None]:
    """A name that is no folder and that the Hub does not know is said plainly; else, what went wrong at the Hub."""
    try:
        yield
    except (OSError, HFValidationError) as error:
        if Path(find_model(name)).is_dir():
            raise
        seen = (error, error.__cause__)
        unknown = any(isinstance(one, HFValidationError | RepositoryNotFoundError) for one in seen)
        if unknown and not any(isinstance(one, GatedRepoError) for one in seen):
            raise FileNotFoundError(f"no such folder or Hub name: {name}{_hint(name)}") from error
        said = str(error).strip().split("\n")[0]
        raise FileNotFoundError(
            f"no such folder: {name}{_hint(name)}; and it could not be loaded from the Hub: {said}"
        ) from error


def _hint(name: str | Path) -> str:
    """The models of the package, and which of them may have been meant; a path or OWNER/NAME means none of them."""
    if "/" in str(name) or "\\" in str(name):
        return ""
    known = list(shipped_models())
    near = difflib.get_close_matches(str(name), known, n=1)
    return (f"; did you mean {near[0]!r}?" if near else "") + f" (in the package: {', '.join(known)})"


def label_names(config: PreTrainedConfig) -> tuple[str, ...]:
    """The labels in order of their number: a file may hold them in another."""
    return tuple(config.id2label[number] for number in range(len(config.id2label)))


def load_config(name: str | Path) -> PreTrainedConfig:
    folder = Path(find_model(name))
    if folder.is_dir() and not (folder / "config.json").exists():
        inner = [file.parent.relative_to(folder) for file in sorted(folder.glob("*/model/config.json"))]  # of a run
        hint = f"; there is one in {folder / inner[-1]}" if inner else ""
        raise FileNotFoundError(f"{name} holds no model: it has no config.json{hint}")
    with named(name):
        config: PreTrainedConfig = AutoConfig.from_pretrained(find_model(name))
    return config


def load_tokenizer(name: str | Path) -> PreTrainedTokenizerBase:
    with named(name):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(find_model(name))
    return tokenizer


def load_model(name: str | Path) -> MuxPreTrainedModel:
    """A trained multiplexed model of whatever task it was saved for, in evaluation mode and full precision."""
    config = load_config(name)
    if not isinstance(config, MuxConfig):
        raise ValueError(f"{name} is a {config.model_type} model, not a multiplexed one; datamux.multiplex() makes one")
    classes = {model_class.__name__: model_class for model_class in TASKS.values()}
    saved_as = (config.architectures or [""])[0]
    check_choice("architecture", saved_as, classes)
    with without_bars():
        model: MuxPreTrainedModel = classes[saved_as].from_pretrained(find_model(name), dtype=torch.float32)
    model.eval()
    return model
