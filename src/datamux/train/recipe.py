"""A recipe: everything a training run depends on, as TOML.

An unknown key, a value of the wrong type and a number out of range are errors. `--set` overrides single values.
"""

import json
import tomllib
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from datamux.errors import check_choice
from datamux.train.ranges import RANGES, check_ranges
from datamux.train.shipped import shipped_recipes

START_SIZES = ("auto", "capacity")  # the words that `start_size` may be; otherwise it is a number


@dataclass
class ModelSettings:
    """The encoder, and the multiplexer and demultiplexer around it.

    `start` is the name or folder of a pretrained encoder, classifier or warm-up; if it is empty, the encoder is new.
    """

    start: str = ""
    needs_start: bool = False  # True: training without `start` is refused
    architecture: str = "bert"
    layers: int = 4
    hidden: int = 256
    heads: int = 4
    dropout: float = 0.1
    tokenizer: str = ""  # name or folder; empty: the start model's tokenizer, or a new one learned from the texts
    vocab_size: int = 8000
    lowercase: bool = False
    word_vectors: str = ""  # a new encoder's word vectors start from those of this encoder; empty: from random ones
    keep_layers: int = 0  # use only the first layers of a pretrained encoder; 0: all of them
    max_tokens: int = 64
    num_instances: int = 10
    mux_layer: int = 0
    frozen: bool = (
        False  # keep `start`, a plain classifier, as it is: train only the new parts, and answer single texts by it
    )
    low_rank: int = 0  # the rank of updates of the encoder that act only on mixtures; 0: none
    multiplexer: str = "gaussian_hadamard"
    multiplexer_options: dict[str, Any] = field(default_factory=lambda: {"scale": "sqrt"})
    demultiplexer: str = "gate"
    demultiplexer_options: dict[str, Any] = field(default_factory=dict)
    new_demultiplexer: bool = False  # True: the start model's demultiplexer is not used, only its prefix (see build.py)
    pooling: str = "mean"
    head_context: int = 0


@dataclass
class WarmupSettings:
    """Stage one: learn to tell which word each instance has at each position. `steps = 0` leaves the stage out.

    `[pretrain]` has the same settings. It follows the warm-up, and is for guessing masked words in mixtures.
    """

    steps: int = 0
    corpus: str = "wikipedia_en"  # a known corpus, a text file or a task; several are joined by +
    max_words: int = 4_000_000
    tokens: int = 32
    groups: int = 24
    learning_rate: float = 1e-3
    objective: str = "all"
    candidates: int = 1024
    positions: int = 4096
    mask_rate: float = 0.0
    teacher: str = ""  # a pretrained encoder to learn from; the corpus is then read sentence by sentence
    retrieval: float = 1.0  # with a teacher: the weight of naming words, shown and masked ones
    match_words: float = 1.0  # with a teacher: the weight of matching its states of words
    match_sentences: float = 1.0  # with a teacher: the weight of matching its sentence vectors
    consistency: float = 0.0  # the weight of reading a text the same way whoever its neighbours are
    start_size: int | str = "auto"  # the first group size; "auto": 2, or 1 without mixing; "capacity": num_instances
    growth: float = 1.5
    threshold: float = 0.85
    elastic: float = 0.2


@dataclass
class TaskSettings:
    """Stage two: learn the task itself. `steps = 0` leaves the stage out."""

    steps: int = 0
    plain_steps: int = 0  # first fine-tune the start model without mixing: it is then the start and the teacher
    plain_start: str = ""  # fine-tune this plain encoder instead: then it is only the teacher
    plain_learning_rate: float = 1e-4
    name: str = ""
    objective: str = "all"  # which instances the auxiliary retrieval loss asks for: all, or one per position
    candidates: int = 1024
    positions: int = 2048
    groups: int = 24
    min_rows: int = 128
    learning_rate: float = 5e-4
    alpha: float = 0.1
    teacher: str = ""  # empty: the start model, if it is a plain classifier of this task; "none": no teacher
    distill_logits: float = 0.0
    distill_states: float = 0.0
    extra_losses: dict[str, float] = field(default_factory=dict)  # weights of further losses: see datamux ls losses
    repetition: float = 0.0  # the share of groups in which one text fills every slot, to train for ensembling
    unlabelled: str = ""  # a file of texts without labels: the teacher labels them, and they join the training rows
    temperature: float = 2.0
    balance: float = 0.0  # how much more rows of rare labels count: 1 makes all labels count the same
    consistency: float = 0.0  # the weight of answering a text the same way whoever its neighbours are
    start_size: int | str = "auto"  # as in the warm-up
    growth: float = 1.5
    threshold: float = 0.45
    elastic: float = 0.3
    patience: int = 0
    best_by: str = "score"  # what patience follows: the task's main score, or "macro_f1", the mean F1 of the labels


@dataclass
class RunSettings:
    """How a run proceeds: seed, precision, and how often it evaluates and saves."""

    seed: int = 0
    bf16: bool | str = "auto"  # half precision; "auto": if the machine has instructions for it
    warmup_steps: int = 100
    weight_decay: float = 0.01
    eval_steps: int = 500
    eval_rows: int = 2000
    save_steps: int = 250
    group_by_length: bool = False  # batches of texts of similar length need less padding
    length_noise: float = 0.0  # sort by lengths changed at random, up to exp(noise) times longer or shorter
    plain: bool = False  # train the plain model instead, which answers one instance per pass: the baseline


@dataclass
class Recipe:
    """All settings of a training run. `parse_recipe` and `load_recipe` make one and check it."""

    model: ModelSettings = field(default_factory=ModelSettings)
    warmup: WarmupSettings = field(default_factory=WarmupSettings)
    pretrain: WarmupSettings = field(default_factory=WarmupSettings)
    task: TaskSettings = field(default_factory=TaskSettings)
    run: RunSettings = field(default_factory=RunSettings)

    def as_dict(self) -> dict[str, dict[str, Any]]:
        return asdict(self)

    def as_toml(self) -> str:
        """All settings as a file that `load_recipe` reads back."""
        sections = []
        for name, settings in self.as_dict().items():
            lines = [f"{key} = {toml_value(value)}" for key, value in settings.items()]
            sections.append("\n".join([f"[{name}]", *lines]))
        return "\n\n".join(sections) + "\n"


def toml_value(value: Any) -> str:
    """A value as it stands in a TOML file."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml_value(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def load_recipe(name_or_file: str, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe from a .toml file, or by the name of one in the package, with `section.key=value` overrides."""
    if name_or_file.endswith(".toml"):
        data = _read_file(Path(name_or_file))
    else:
        shipped = shipped_recipes()
        check_choice("recipe", name_or_file, shipped)
        data = deepcopy(shipped[name_or_file].settings)  # the paper's recipes share tables, and overrides change them
    for override in overrides:
        _apply(data, override)
    return parse_recipe(data)


def _read_file(file: Path) -> dict[str, Any]:
    if not file.exists():
        raise FileNotFoundError(
            f"there is no recipe file {file}; `datamux ls recipes` lists the recipes in the package, and "
            "`datamux train NAME --print` prints one to start from"
        )
    try:
        return tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file} is not TOML: {error}") from error


def first_group_size(start_size: int | str, num_instances: int) -> int:
    """The group size of the first training steps, for a `start_size` of a recipe."""
    if start_size == "auto":
        return min(2, num_instances)
    return num_instances if start_size == "capacity" else int(start_size)


def parse_recipe(data: dict[str, Any]) -> Recipe:
    """A recipe from nested dicts. Every key must be known, and every value of the right type and in its range."""
    recipe = Recipe()
    for section, values in data.items():
        check_choice("section of a recipe", section, [f.name for f in fields(Recipe)])
        if not isinstance(values, dict):
            raise ValueError(f"{section} is a section: write [{section}] and its keys below, or {section}.key=value")
        settings = getattr(recipe, section)
        types = get_type_hints(type(settings))
        for key, value in values.items():
            check_choice(f"key in [{section}]", key, types)
            setattr(settings, key, _typed(f"{section}.{key}", value, types[key]))
    _check(recipe)
    return recipe


def _check(recipe: Recipe) -> None:
    """Check what the types do not say: ranges, choices, and settings that must fit together."""
    for section in RANGES:
        check_ranges(section, getattr(recipe, section))
    if isinstance(recipe.run.bf16, str):
        check_choice("run.bf16", recipe.run.bf16, ("auto",))
    if recipe.task.repetition and recipe.task.consistency:
        raise ValueError("task.repetition and task.consistency fill the slots in different ways: set one of them to 0")
    check_choice("task.best_by", recipe.task.best_by, ("score", "macro_f1"))
    if recipe.task.extra_losses:
        _check_extra_losses(recipe.task.extra_losses)
    for section in ("warmup", "pretrain", "task"):
        settings = getattr(recipe, section)
        check_choice(f"{section}.objective", settings.objective, ("all", "one"))
        _check_start_size(f"{section}.start_size", settings.start_size, recipe)


def _check_extra_losses(weights: dict[str, float]) -> None:
    from datamux.train.extra_losses import EXTRA_LOSSES  # not above: a recipe is read without torch

    for name, weight in weights.items():
        check_choice("loss in task.extra_losses", name, EXTRA_LOSSES)
        if not isinstance(weight, int | float) or isinstance(weight, bool) or weight < 0:
            raise ValueError(f"task.extra_losses.{name} must be a weight of at least 0, got {weight!r}")


def _check_start_size(key: str, value: int | str, recipe: Recipe) -> None:
    if isinstance(value, str):
        check_choice(key, value, START_SIZES)
        return
    limit, reason = recipe.model.num_instances, "model.num_instances"
    if recipe.run.plain:
        limit, reason = 1, "a plain model (run.plain) answers one instance per pass"
    if not 1 <= value <= limit:
        allowed = f"1 to {limit}" if limit > 1 else "1"
        raise ValueError(
            f'{key} must be {allowed} ({reason}), got {value}; leave it out, or set it to "auto", and it will fit'
        )


def _typed(key: str, value: Any, annotation: Any) -> Any:
    """The value, if it has the annotated type. A whole number is fine for a float; True is not a number."""
    choices = get_args(annotation) if isinstance(annotation, UnionType) else (get_origin(annotation) or annotation,)
    if float in choices and type(value) is int:
        return float(value)
    if not isinstance(value, choices) or (isinstance(value, bool) and bool not in choices):
        names = " or ".join("table" if choice is dict else choice.__name__ for choice in choices)
        raise ValueError(f"{key} must be of type {names}, got {value!r}")
    return value


def _apply(data: dict[str, Any], override: str) -> None:
    """Set one `section.key=value` in the nested dicts of a recipe. A value that is not TOML counts as text."""
    name, equals, text = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not equals or not dot:
        raise ValueError(f"--set takes section.key=value, got {override!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    target = data.setdefault(section, {})
    if not isinstance(target, dict):
        raise ValueError(f"{section} is not a section of this recipe: {override!r}")
    *path, last = key.split(".")
    for part in path:
        target = target.setdefault(part, {})
        if not isinstance(target, dict):
            raise ValueError(f"{section}.{part} is a value, not a table: {override!r}")
    target[last] = value
