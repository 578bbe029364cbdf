"""Which models a speed run times: multiplexed ones, the plain one of the same shape, and smaller plain ones."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from transformers import PreTrainedModel

from datamux.demultiplexers import DEMULTIPLEXERS
from datamux.errors import check_choice
from datamux.evaluate.contenders import Shape, engine, plain_model
from datamux.hub import MuxConfig
from datamux.hub.loading import load_config
from datamux.inference.exported import ExportedRuntime
from datamux.inference.loading import load_runtime
from datamux.inference.runtime import Runtime, TorchRuntime


@dataclass(frozen=True)
class Rivals:
    """`plain` by name, the one that others are compared with first; `mixed` by the name of the demultiplexer."""

    shape: Shape
    capacity: int
    plain: dict[str, PreTrainedModel]
    mixed: dict[str, PreTrainedModel | ExportedRuntime]
    engines: list[str]

    def sizes(self, wanted: Sequence[int]) -> list[int]:
        """The group sizes among `wanted` that there are slots for."""
        sizes = sorted({k for k in wanted if k <= self.capacity})
        if not sizes:
            raise ValueError(f"the model has {self.capacity} slots; choose group sizes up to that")
        return sizes

    def with_smaller(self, specs: Sequence[str]) -> "Rivals":
        """Plain models of other shapes besides."""
        plain = dict(self.plain)
        for spec in specs:
            encoder = shape_like(self.shape, spec).encoder()
            encoder.id2label = self.plain["plain"].config.id2label
            plain[f"plain {spec}"] = plain_model(encoder, self.shape.token_level)
        return replace(self, plain=plain)


def find_rivals(
    model: str | None,
    shape: dict[str, Any],
    group_sizes: Sequence[int],
    demultiplexers: Sequence[str],
    engines: Sequence[str],
    **options: Any,
) -> Rivals:
    """A trained model, or new ones of this shape with these options, and the plain one."""
    if model is None:
        return new_rivals(Shape(**shape), max(group_sizes), demultiplexers, engines, **options)
    if any(options.values()):
        raise ValueError("--hidden-dim, --head-context and --bypass are for new models: a trained one has its own")
    return trained_rivals(model, engines)


def trained_rivals(name: str, engines: Sequence[str]) -> Rivals:
    """A trained model, or an exported one in its own engine, and a plain one with its encoder."""
    config = load_config(name)
    if not isinstance(config, MuxConfig):
        raise ValueError(f"{name} is a {config.model_type} model, not a multiplexed one; datamux frontier times any")
    runtime, _, token_level = load_runtime(name, device="cpu")
    encoder: Any = copy(config.backbone_config)
    encoder.id2label = config.id2label
    shape = Shape(
        layers=encoder.num_hidden_layers,
        hidden=encoder.hidden_size,
        heads=encoder.num_attention_heads,
        vocab_size=encoder.vocab_size,
        token_level=token_level,
    )
    plain = {"plain": plain_model(encoder, token_level)}
    if isinstance(runtime, TorchRuntime):
        mixed = {config.demultiplexer: runtime.model}
        return Rivals(shape, config.num_instances, plain, mixed, list(engines) or ["torch"])
    assert isinstance(runtime, ExportedRuntime)
    if set(engines) - {runtime.name}:
        raise ValueError(
            f"{name} is exported and runs in {runtime.name} alone, not in {', '.join(engines)}: "
            "leave --engine out, or give the model that it was exported from"
        )
    return Rivals(shape, config.num_instances, plain, {config.demultiplexer: runtime}, [runtime.name])


def new_rivals(
    shape: Shape,
    capacity: int,
    demultiplexers: Sequence[str],
    engines: Sequence[str],
    *,
    hidden_dim: int | None = None,
    head_context: int = 0,
    bypass: bool = False,
) -> Rivals:
    """Models of this shape with random weights, which take the same time."""
    if head_context and not shape.token_level:
        raise ValueError("--head-context is what a tagging head sees: give --tagging too")
    for name in demultiplexers:
        check_choice("demultiplexer", name, DEMULTIPLEXERS)
    own = {} if hidden_dim is None else {"hidden_dim": hidden_dim}
    options = {"multiplexer": "sign", "demultiplexer_options": own, "head_context": head_context, "bypass": bypass}
    mixed = {name: shape.multiplexed(capacity, demultiplexer=name, **options) for name in demultiplexers}
    return Rivals(shape, capacity, {"plain": shape.plain()}, dict(mixed), list(engines) or ["torch"])


def shape_like(shape: Shape, spec: str) -> Shape:
    """`shape` with the layers and the width of `spec`, "1x64"; heads stay about as wide as they are."""
    layers, _, hidden = spec.partition("x")
    if not (layers.isdigit() and hidden.isdigit() and int(layers) and int(hidden)):
        raise ValueError(f"a smaller model is LAYERSxHIDDEN, such as 1x64; got {spec!r}")
    width = int(hidden)
    wanted = max(1, width * shape.heads // shape.hidden)
    heads = next(heads for heads in range(wanted, 0, -1) if width % heads == 0)
    return replace(shape, layers=int(layers), hidden=width, heads=heads)


@contextmanager
def on_engine(model: PreTrainedModel | ExportedRuntime, name: str) -> Iterator[Runtime]:
    """`model` on an engine; an exported one is on its own already."""
    if isinstance(model, ExportedRuntime):
        yield model
        return
    with engine(model, name) as runtime:
        yield runtime
