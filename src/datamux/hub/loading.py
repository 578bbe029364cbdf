"""Configuration, tokenizer and model by name: a shipped model (`datamux ls models`), a folder, or a name on the Hub."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import torch
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, RepositoryNotFoundError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import cached_file, logging

from datamux.errors import check_at_least_one, check_choice
from datamux.hub.config import MuxConfig
from datamux.hub.models import MODEL_CLASSES, MuxPreTrainedModel
from datamux.hub.published.checkpoint import TOKENIZERS, TRAINED_LENGTH, Checkpoint, is_published, read_checkpoint
from datamux.hub.published.models import PUBLISHED_CLASSES
from datamux.zoo import INSTALLABLE, find_model, shipped_encoders, shipped_models

TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt")  # one of them is there if a tokenizer was saved
HUB_SECONDS = 5.0  # how long to wait for the Hub to say whether it has a model


@contextmanager
def without_bars() -> Iterator[None]:
    """Hide the progress bar of loading weights, which takes only a moment."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextmanager
def named(name: str | Path) -> Iterator[None]:
    """Refuse a mistyped name at once, and turn the Hub's errors into one that says what is wrong with the name."""
    if Path(find_model(name)).is_dir():
        yield
        return
    try:
        _refuse_mistyped(find_model(name))
        yield
    except (OSError, HFValidationError) as error:
        if isinstance(error, _MistypedName):
            raise
        chain = (error, error.__cause__)
        unknown = any(isinstance(link, HFValidationError | RepositoryNotFoundError) for link in chain)
        if unknown and not any(isinstance(link, GatedRepoError) for link in chain):
            raise FileNotFoundError(f"no such folder or Hub name: {name}{_hint(name)}") from error
        first_line = str(error).strip().split("\n")[0]
        raise FileNotFoundError(
            f"no such folder: {name}{_hint(name)}; and it could not be loaded from the Hub: {first_line}"
        ) from error


class _MistypedName(FileNotFoundError):
    """A name that cannot be on the Hub, or that looks like a misspelt model of the package."""


def _refuse_mistyped(name: str) -> None:
    """Raise if a name that is no folder is a path, or close to a model in the package, or unknown to the Hub.

    The Hub's own download functions try again for half a minute before they give up, so it is asked once beforehand.
    """
    if name.startswith(("/", ".", "~")) or name.count("/") > 1 or "\\" in name:
        raise _MistypedName(f"no such folder: {name}; give the folder of a model, or a name from `datamux ls models`")
    if any(Path(constants.HF_HUB_CACHE).glob(f"models--{name.replace('/', '--')}/snapshots/*/*")):
        return  # it was downloaded before
    if _nearest_shipped(name):
        raise _MistypedName(f"no such folder or Hub name: {name}{_hint(name)}")
    if constants.HF_HUB_OFFLINE:
        return  # loading will not wait for the Hub
    try:
        _ask_the_hub(name)
    except (RepositoryNotFoundError, HFValidationError):
        raise
    except HfHubHTTPError:
        return  # the Hub answers, but is busy: loading tries again
    except Exception as error:  # no connection; which class says so depends on the version of huggingface_hub
        raise ConnectionError(f"{constants.ENDPOINT} cannot be reached ({error})") from error


def _ask_the_hub(name: str) -> None:
    """Raise what is wrong with a name on the Hub.

    It is asked in a thread, because `timeout` does not count the time that a name server takes.
    """
    answers: Queue[Exception | None] = Queue()

    def ask() -> None:
        try:
            HfApi().model_info(name, timeout=HUB_SECONDS)
            answers.put(None)
        except Exception as error:
            answers.put(error)

    Thread(target=ask, daemon=True).start()
    try:
        error = answers.get(timeout=HUB_SECONDS)
    except Empty:
        raise TimeoutError(f"no answer within {HUB_SECONDS:g} seconds") from None
    if error is not None:
        raise error


def _nearest_shipped(name: str) -> str | None:
    """The model in the package whose name is closest to this one, if any is close. A path or OWNER/NAME never is."""
    if "/" in name or "\\" in name:
        return None
    return next(iter(difflib.get_close_matches(name, [*shipped_models(), *shipped_encoders()], n=1)), None)


def _hint(name: str | Path) -> str:
    """The models in the package, and which of them may have been meant; nothing for a path or OWNER/NAME."""
    if name in INSTALLABLE:
        return f"; pip install 'datamux[{name}]' brings it"
    if "/" in str(name) or "\\" in str(name):
        return ""
    nearest = _nearest_shipped(str(name))
    return (
        f"; did you mean {nearest!r}?" if nearest else ""
    ) + f" (in the package: {', '.join([*shipped_models(), *shipped_encoders()])})"


def label_names(config: PreTrainedConfig) -> tuple[str, ...]:
    """The labels in the order of their numbers; a configuration file may list them in another order."""
    return tuple(config.id2label[number] for number in range(len(config.id2label)))


def tags_tokens(model: PreTrainedModel | PreTrainedConfig) -> bool:
    """Whether a model, or the one with this configuration, gives one label per token rather than one per text."""
    return is_made_for(model, "TokenClassification")


def auto_classifier(tags: bool) -> Any:
    """The Auto class of Hugging Face for plain classifiers of tokens (`tags`) or of whole texts."""
    return AutoModelForTokenClassification if tags else AutoModelForSequenceClassification


def is_classifier(config: PreTrainedConfig) -> bool:
    """Whether a configuration is that of a saved classifier, of texts or of tokens."""
    return is_made_for(config, "SequenceClassification") or is_made_for(config, "TokenClassification")


def is_made_for(model: PreTrainedModel | PreTrainedConfig, purpose: str) -> bool:
    """Whether a model is of a class for this purpose, such as "TokenClassification" or "SequenceClassification".

    A configuration names the class that its model was saved as. Without such a name, the answer is False.
    """
    classes = [type(model).__name__] if isinstance(model, PreTrainedModel) else model.architectures or []
    return any(name.endswith(f"For{purpose}") for name in classes)


def load_config(name: str | Path) -> PreTrainedConfig:
    """The configuration of a model; that of a published checkpoint in our own words."""
    config = _config_as_saved(name)
    if not is_published(config):
        return config
    checkpoint = _read_published(name, config)
    return checkpoint.our_config(checkpoint.task())


def _config_as_saved(name: str | Path) -> PreTrainedConfig:
    folder = Path(find_model(name))
    if folder.is_dir() and not (folder / "config.json").exists():
        inner = [file.parent.relative_to(folder) for file in sorted(folder.glob("*/model/config.json"))]  # of a run
        hint = f"; there is one in {folder / inner[-1]}" if inner else ""
        raise FileNotFoundError(f"{name} holds no model: it has no config.json{hint}")
    with named(name):
        config: PreTrainedConfig = AutoConfig.from_pretrained(find_model(name))
    return config


def load_tokenizer(name: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer that was saved with a model; for a published checkpoint without one, that of its training."""
    with named(name):
        published = _tokenizer_of_published(name)
        if published is not None:
            return _load_other_tokenizer(name, published)
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(find_model(name))
    return tokenizer


def _tokenizer_of_published(name: str | Path) -> str | None:
    """The tokenizer of a published checkpoint that has none of its own; AutoTokenizer would make an empty one."""
    optional = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    if any(cached_file(find_model(name), file, **optional) for file in TOKENIZER_FILES):
        return None
    if cached_file(find_model(name), "config.json", **optional) is None:
        return None
    config = _config_as_saved(name)
    return TOKENIZERS.get(config.model_type) if is_published(config) else None


def _load_other_tokenizer(name: str | Path, tokenizer_name: str) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(tokenizer_name)
    except (OSError, ValueError) as error:
        raise FileNotFoundError(
            f"{name} has no tokenizer, and that of {tokenizer_name}, with which it was trained, cannot be loaded from "
            "the Hub; save it beside the weights: "
            f"AutoTokenizer.from_pretrained('{tokenizer_name}').save_pretrained(folder)"
        ) from error
    return tokenizer


def load_published(
    name: str | Path, *, task: str | None = None, padded_length: int | None = TRAINED_LENGTH
) -> MuxPreTrainedModel:
    """The model of a checkpoint of DataMUX or MUX-PLM as published: a name on the Hub, or a folder in that format.

    It gives the logits of the published code, and behaves like every other model. `task` is read from the checkpoint;
    "retrieval" asks a checkpoint of another task for its retrieval head, and "sequence-classification" or
    "token-classification" the other way round. Texts are cut, and padded, to `padded_length` tokens before they reach
    the model, as in the authors' scripts; None pads only to the longest text of a pass.
    """
    checkpoint = _read_published(name, _config_as_saved(name))
    if task is not None:
        check_choice("task", task, PUBLISHED_CLASSES)
    if padded_length is not None:
        check_at_least_one("padded_length", padded_length)
    return checkpoint.model(task or checkpoint.task(), padded_length)


def _read_published(name: str | Path, config: PreTrainedConfig) -> Checkpoint:
    with named(name):
        return read_checkpoint(str(name), config)


def load_encoder(name: str | Path, **changes: Any) -> PreTrainedModel:
    """The encoder of a plain model, without a task head, in evaluation mode and full precision.

    `changes` replace values of its configuration, such as `num_hidden_layers`.
    """
    if isinstance(load_config(name), MuxConfig):
        raise ValueError(f"{name} is multiplexed already; datamux.load() or its own from_pretrained loads it")
    with named(name), without_bars():
        encoder: PreTrainedModel = AutoModel.from_pretrained(find_model(name), dtype=torch.float32, **changes)
    return encoder.eval()


def load_classifier_with(auto: Any, name: str | Path) -> PreTrainedModel:
    """The plain classifier that an Auto class of Hugging Face loads, in evaluation mode and full precision."""
    with named(name), without_bars():
        classifier: PreTrainedModel = auto.from_pretrained(find_model(name), dtype=torch.float32)
    return classifier.eval()


def load_model(name: str | Path) -> MuxPreTrainedModel:
    """A trained multiplexed model of whatever task it was saved for, in evaluation mode and full precision."""
    config = _config_as_saved(name)
    if is_published(config):
        return load_published(name)
    if not isinstance(config, MuxConfig):
        raise ValueError(f"{name} is a {config.model_type} model, not a multiplexed one; datamux.multiplex() makes one")
    known: list[type[MuxPreTrainedModel]] = [*MODEL_CLASSES.values(), *PUBLISHED_CLASSES.values()]
    classes = {model_class.__name__: model_class for model_class in known}
    saved_as = (config.architectures or [""])[0]
    check_choice("architecture", saved_as, classes)
    with without_bars():
        model: MuxPreTrainedModel = classes[saved_as].from_pretrained(find_model(name), dtype=torch.float32)
    model.eval()
    return model
