"""A recipe: everything a training run depends on, as TOML. Unknown keys are errors; `--set` overrides single values."""

import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from datamux.errors import check_choice, unknown_name
from datamux.train.ranges import RANGES, check_ranges


@dataclass
class ModelSettings:
    """The encoder and our parts. `start`: a pretrained encoder, classifier or warm-up (name or folder); empty: new."""

    start: str = ""
    needs_start: bool = False  # this recipe makes no sense without one
    architecture: str = "bert"
    layers: int = 4
    hidden: int = 256
    heads: int = 4
    dropout: float = 0.1
    tokenizer: str = ""  # name or folder; empty: the start model's, or one learned from the texts
    vocab_size: int = 8000
    lowercase: bool = False
    keep_layers: int = 0  # of a pretrained encoder, from below; 0: all
    max_tokens: int = 64
    num_instances: int = 10
    mux_layer: int = 0
    multiplexer: str = "gaussian_hadamard"
    multiplexer_options: dict[str, Any] = field(default_factory=lambda: {"scale": "sqrt"})
    demultiplexer: str = "gate"
    demultiplexer_options: dict[str, Any] = field(default_factory=dict)
    pooling: str = "mean"
    head_context: int = 0
    bypass: bool = False  # the head also sees each instance's own vectors as they were before mixing


@dataclass
class WarmupSettings:
    """Stage one: which word stood where. `steps = 0` leaves it out."""

    steps: int = 0
    corpus: str = "wikipedia_en"
    max_words: int = 4_000_000
    tokens: int = 32
    groups: int = 24
    learning_rate: float = 1e-3
    objective: str = "all"
    candidates: int = 1024
    positions: int = 4096
    mask_rate: float = 0.0
    teacher: str = ""  # whose token states are matched as well
    retrieval: float = 1.0  # the weight of retrieval beside them
    start_size: int = 2
    growth: float = 1.5
    threshold: float = 0.85
    elastic: float = 0.2


@dataclass
class TaskSettings:
    """Stage two: the task itself. `steps = 0` leaves it out."""

    steps: int = 0
    name: str = ""
    objective: str = "all"  # of the auxiliary retrieval loss
    candidates: int = 1024
    positions: int = 2048
    groups: int = 24
    min_rows: int = 128
    learning_rate: float = 5e-4
    alpha: float = 0.1
    teacher: str = ""  # empty: the plain classifier that is started from, if it is one; "none": nobody
    distill_logits: float = 0.0
    distill_states: float = 0.0
    unlabelled: str = ""  # a file of texts that the teacher labels: they are trained on as well
    temperature: float = 2.0
    start_size: int = 1
    growth: float = 1.5
    threshold: float = 0.45
    elastic: float = 0.3
    patience: int = 0


@dataclass
class RunSettings:
    seed: int = 0
    bf16: bool | str = "auto"  # half precision; "auto": where the machine has instructions for it
    warmup_steps: int = 100
    weight_decay: float = 0.01
    eval_steps: int = 500
    eval_rows: int = 2000
    save_steps: int = 250
    group_by_length: bool = False  # batches of similar lengths: less padding
    length_noise: float = 0.0  # how unlike those lengths may be: up to exp(noise) times longer or shorter
    plain: bool = False  # train the plain model instead: the baseline, in the same harness


@dataclass
class Recipe:
    model: ModelSettings = field(default_factory=ModelSettings)
    warmup: WarmupSettings = field(default_factory=WarmupSettings)
    task: TaskSettings = field(default_factory=TaskSettings)
    run: RunSettings = field(default_factory=RunSettings)

    def as_dict(self) -> dict[str, dict[str, Any]]:
        return asdict(self)


def shipped_recipes() -> dict[str, Path]:
    """Name -> file of the recipes in the package: "small/sst2-n40", "paper/..."."""
    root = Path(str(files("datamux"))) / "recipes"
    return {str(file.relative_to(root).with_suffix("")): file for file in sorted(root.rglob("*.toml"))}


def load_recipe(name_or_file: str, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe from a file or by the name of a shipped one, with `section.key=value` overrides."""
    shipped = shipped_recipes()
    file = Path(name_or_file) if name_or_file.endswith(".toml") else shipped.get(name_or_file)
    if file is None:
        raise unknown_name("recipe", name_or_file, shipped)
    if not file.exists():
        raise FileNotFoundError(f"no such recipe: {file}; shipped ones: {', '.join(shipped)}")
    try:
        data = tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file} is not TOML: {error}") from error
    for override in overrides:
        _apply(data, override)
    return parse_recipe(data)


def parse_recipe(data: dict[str, Any]) -> Recipe:
    """A recipe from nested dicts; every key must be known and every value of the right type."""
    recipe = Recipe()
    for section, values in data.items():
        if section not in {f.name for f in fields(Recipe)}:
            raise unknown_name("section of a recipe", section, [f.name for f in fields(Recipe)])
        if not isinstance(values, dict):
            raise ValueError(f"{section} is a section: write [{section}] and its keys below, or {section}.key=value")
        settings = getattr(recipe, section)
        types = get_type_hints(type(settings))
        for key, value in values.items():
            if key not in types:
                raise unknown_name(f"key in [{section}]", key, types)
            setattr(settings, key, _typed(f"{section}.{key}", value, types[key]))
    _check(recipe)
    return recipe


def _check(recipe: Recipe) -> None:
    """What types alone do not say."""
    for section in RANGES:
        check_ranges(section, getattr(recipe, section))
    if isinstance(recipe.run.bf16, str):
        check_choice("run.bf16", recipe.run.bf16, ("auto",))
    for section in ("warmup", "task"):
        check_choice(f"{section}.objective", getattr(recipe, section).objective, ("all", "one"))


def _typed(key: str, value: Any, wanted: Any) -> Any:
    plain = get_origin(wanted) or wanted
    if plain is UnionType:
        plain = wanted
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, plain) or (plain is int and isinstance(value, bool)):
        name = " or ".join(t.__name__ for t in get_args(wanted)) if plain is not dict else "table"
        raise ValueError(f"{key} must be of type {name or plain.__name__}, got {value!r}")
    return value


def _apply(data: dict[str, Any], override: str) -> None:
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
