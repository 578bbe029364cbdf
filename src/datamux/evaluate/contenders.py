"""Which models a benchmark compares, and on which engine each of them runs.

Multiplexed models run against the baseline: the Hugging Face classifier with the same encoder, which answers one
instance per pass. Tables and records call it "plain", and smaller ones "plain 1x64".
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel

from datamux.demultiplexers import DEMULTIPLEXERS
from datamux.errors import check_choice
from datamux.hub import MuxConfig, MuxForSequenceClassification, MuxForTokenClassification
from datamux.hub.encoders import encoder_sizes, new_encoder_config
from datamux.hub.loading import auto_classifier, load_config
from datamux.inference.exported import ExportedRuntime, load_exported
from datamux.inference.loading import load_runtime
from datamux.inference.runtime import Runtime, TorchRuntime

ENGINES = ("torch", "bf16", "compiled", "onnx", "int8", "openvino")
BERT_POSITIONS = 512
BASELINE = "plain"  # what tables and records call the baseline of the same shape


@dataclass(frozen=True)
class Shape:
    """The size of an encoder, and whether the model labels every token or whole texts."""

    layers: int = 4
    hidden: int = 256
    heads: int = 4
    vocab_size: int = 8000
    token_level: bool = False
    positions: int = BERT_POSITIONS

    def with_room_for(self, tokens: int, num_instances: int) -> "Shape":
        """The same with a position for each of `tokens` and of the paper's prefix; with as many as BERT, if enough."""
        return replace(self, positions=max(BERT_POSITIONS, tokens + num_instances))

    def encoder(self) -> PreTrainedConfig:
        """A BERT of this size."""
        sizes = {"layers": self.layers, "hidden": self.hidden, "heads": self.heads}
        return new_encoder_config("bert", vocab_size=self.vocab_size, max_positions=self.positions, **sizes)

    def baseline(self) -> PreTrainedModel:
        return baseline_model(self.encoder(), self.token_level)

    def multiplexed(self, num_instances: int, **options: Any) -> PreTrainedModel:
        """Options are those of MuxConfig. `index` reads the first position, as in the paper, which is also faster."""
        if options.get("demultiplexer") == "index":
            options = {"pooling": "first"} | options
        classes = {True: MuxForTokenClassification, False: MuxForSequenceClassification}
        config = MuxConfig(backbone_config=self.encoder().to_dict(), num_instances=num_instances, **options)
        return classes[self.token_level](config).eval()


def baseline_model(encoder: PreTrainedConfig, token_level: bool) -> PreTrainedModel:
    """The Hugging Face classifier that a user has today, with random weights."""
    model: PreTrainedModel = auto_classifier(token_level).from_config(encoder)
    return model.eval()


def shape_like(shape: Shape, spec: str) -> Shape:
    """`shape` with the layers and the width of `spec`, such as "1x64"; heads keep about their width."""
    layers, _, hidden = spec.partition("x")
    if not (layers.isdigit() and hidden.isdigit() and int(layers) and int(hidden)):
        raise ValueError(f"the size of a plain model is LAYERSxHIDDEN, such as 1x64; got {spec!r}")
    width = int(hidden)
    wanted = max(1, width * shape.heads // shape.hidden)
    heads = next(heads for heads in range(wanted, 0, -1) if width % heads == 0)
    return replace(shape, layers=int(layers), hidden=width, heads=heads)


@dataclass(frozen=True)
class Models:
    """The models of one benchmark: baselines by their name in tables, multiplexed ones by their demultiplexer."""

    shape: Shape
    capacity: int
    baselines: dict[str, PreTrainedModel]  # the first has the shape of the multiplexed models
    multiplexed: dict[str, PreTrainedModel | ExportedRuntime]
    engines: list[str]

    @property
    def baseline(self) -> PreTrainedModel:
        """The one that multiplexed models are compared with."""
        return self.baselines[BASELINE]

    def sizes(self, wanted: Sequence[int]) -> list[int]:
        """The group sizes among `wanted` that the models have slots for."""
        sizes = sorted({k for k in wanted if k <= self.capacity})
        if not sizes:
            raise ValueError(f"the model has {self.capacity} slots; choose a group size from 1 to {self.capacity}")
        return sizes

    def with_baselines(self, specs: Sequence[str]) -> "Models":
        """The same, and a further baseline for each of these sizes ("1x64")."""
        baselines = dict(self.baselines)
        for spec in specs:
            encoder = shape_like(self.shape, spec).encoder()
            encoder.id2label = self.baseline.config.id2label
            baselines[f"{BASELINE} {spec}"] = baseline_model(encoder, self.shape.token_level)
        return replace(self, baselines=baselines)


def find_models(
    model: str | None,
    shape: dict[str, Any],
    group_sizes: Sequence[int],
    demultiplexers: Sequence[str],
    engines: Sequence[str],
    *,
    tokens: int = 0,
    hidden_dim: int | None = None,
    head_context: int = 0,
) -> Models:
    """The trained model called `model`, or new ones of this shape; and their baseline.

    New models have random weights: they take the same time as trained ones. They read texts of at least `tokens`.
    """
    if model is not None:
        if hidden_dim or head_context:
            raise ValueError(
                "--hidden-dim and --head-context are for new models: a trained model has its own; leave them out"
            )
        return trained_models(model, engines)
    capacity = max(group_sizes)
    new = Shape(**shape).with_room_for(tokens, capacity)
    if head_context and not new.token_level:
        raise ValueError("--head-context widens what a tagging head sees: give --tagging as well")
    width = {} if hidden_dim is None else {"hidden_dim": hidden_dim}
    options = {"multiplexer": "sign", "demultiplexer_options": width, "head_context": head_context}
    multiplexed: dict[str, PreTrainedModel | ExportedRuntime] = {}
    for name in demultiplexers:
        check_choice("demultiplexer", name, DEMULTIPLEXERS)
        multiplexed[name] = new.multiplexed(capacity, demultiplexer=name, **options)
    return Models(new, capacity, {BASELINE: new.baseline()}, multiplexed, list(engines) or ["torch"])


def trained_models(name: str, engines: Sequence[str]) -> Models:
    """A trained model, or an exported one in its own engine, and a baseline with its encoder."""
    config = load_config(name)
    if not isinstance(config, MuxConfig):
        raise ValueError(
            f"{name} is a {config.model_type} model, not a multiplexed one; `datamux frontier` can time any classifier"
        )
    runtime, _, token_level = load_runtime(name, device="cpu")
    encoder: Any = copy(config.backbone_config)
    encoder.id2label = config.id2label
    shape = Shape(**encoder_sizes(encoder), token_level=token_level)
    baselines = {BASELINE: baseline_model(encoder, token_level)}
    if isinstance(runtime, TorchRuntime):
        multiplexed = {config.demultiplexer: runtime.model}
        return Models(shape, config.num_instances, baselines, multiplexed, list(engines) or ["torch"])
    assert isinstance(runtime, ExportedRuntime)
    if set(engines) - {runtime.name}:
        raise ValueError(
            f"{name} is exported and runs only in {runtime.name}, not in {', '.join(engines)}: "
            "leave --engine out, or give the model that it was exported from"
        )
    return Models(shape, config.num_instances, baselines, {config.demultiplexer: runtime}, [runtime.name])


@contextmanager
def on_engine(model: PreTrainedModel | ExportedRuntime, name: str) -> Iterator[Runtime]:
    """`model` on one of ENGINES. Files exported for it are removed when the context ends.

    A model that was exported before stays in its own engine.
    """
    if isinstance(model, ExportedRuntime):
        yield model
        return
    check_choice("engine", name, ENGINES)
    if name in ("torch", "bf16", "compiled"):
        yield TorchRuntime(model, bf16=name == "bf16", compiled=name == "compiled")
        return
    from datamux.inference.export import write_exported

    with TemporaryDirectory() as place:
        write_exported(
            TorchRuntime(model), Path(place), "openvino" if name == "openvino" else "onnx", int8=name == "int8"
        )
        exported = load_exported(Path(place), model.config)
        assert exported is not None
        yield exported
