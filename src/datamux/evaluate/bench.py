"""The benchmarks as run records: which contenders, measured how, and what came out."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import asdict
from statistics import fmean
from typing import Any

from datamux.evaluate.contenders import (
    FromIds,
    FromTexts,
    Shape,
    engine,
    inputs_of,
    lengths_of,
    plain_model,
    random_rows,
)
from datamux.evaluate.memory import measure_memory
from datamux.evaluate.parts import measure_parts
from datamux.evaluate.records import make_record
from datamux.evaluate.speed import Contender, Work, compare_speed
from datamux.hub.loading import load_model, load_tokenizer
from datamux.hub.models import MuxForTokenClassification, MuxPreTrainedModel
from datamux.inference.predictor import Predictor
from datamux.inference.runtime import Runtime
from datamux.inference.texts import Texts, max_tokens_of
from datamux.tasks.task import get_task, load_split

POOL = 40_000  # instances that a run works through, over and over


def run_speed(
    *,
    model: str | None,
    shape: dict[str, Any],
    group_sizes: Sequence[int],
    lengths: str,
    texts: bool,
    engines: Sequence[str],
    demultiplexers: Sequence[str],
    samples: int | None,
    rounds: int,
    seconds: float,
    data_dir: str | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """The plain model on every engine, then the multiplexed one on every engine and group size."""
    if texts and (model is None or lengths.startswith("fixed")):
        raise ValueError("--texts needs a trained model (for its tokenizer) and a task: --model FOLDER --lengths sst2")
    trained = None if model is None else load_model(model)
    size = Shape(**shape) if trained is None else shape_of(trained)
    if texts and size.token_level:
        raise ValueError(
            "--texts is for classifiers: how long a tagger takes depends on what it finds; use `datamux frontier`"
        )
    capacity = max(group_sizes) if trained is None else trained.config.num_instances
    sizes = sorted({k for k in group_sizes if k <= capacity})
    if not sizes:
        raise ValueError(f"{model} has {capacity} slots; choose group sizes up to that")
    if trained is not None:
        encoder: Any = copy(trained.config.backbone_config)
        encoder.id2label = trained.config.id2label
        plain = plain_model(encoder, size.token_level)
        mixed: dict[str, Any] = {trained.config.demultiplexer: trained}
    else:
        plain = size.plain()
        options = {name: {"multiplexer": "sign", "demultiplexer": name} for name in demultiplexers}
        mixed = {name: size.multiplexed(capacity, **option) for name, option in options.items()}
    with ExitStack() as stack:
        runtimes = {
            (name, how): stack.enter_context(engine(given, how))
            for name, given in {"plain": plain, **mixed}.items()
            for how in engines
        }
        if texts:
            assert model is not None
            tokenizer = load_tokenizer(model)
            words = inputs_of(load_split(get_task(lengths), "train", data_dir).first(POOL))
            known = Texts(tokenizer, max_tokens_of(tokenizer, plain.config), token_level=False).window(words[:1000])
            tokens = fmean(known.lengths)

            def work(runtime: Runtime, k: int) -> Work:
                return FromTexts(Predictor(runtime, tokenizer, plain.config, token_level=size.token_level), words, k)
        else:
            counts = lengths_of(lengths, POOL, data_dir)
            rows, tokens = random_rows(counts, size.vocab_size), fmean(counts)

            def work(runtime: Runtime, k: int) -> Work:
                return FromIds(runtime, rows, k)

        contenders = [
            Contender(
                f"plain, {how}" if name == "plain" else f"{name}, {k} a pass, {how}",
                work(runtime, k),
                k,
                tokens,
                {"engine": how, "demultiplexer": None if name == "plain" else name},
                None if name == "plain" else f"plain, {how}",
            )
            for (name, how), runtime in runtimes.items()
            for k in ([1] if name == "plain" else sizes)
        ]
        found = compare_speed(contenders, rounds=rounds, seconds=seconds, samples=samples, tell=tell)
    settings = {"shape": asdict(size), "lengths": lengths, "texts": texts, "rounds": rounds, "capacity": capacity}
    return make_record("speed", recipe=None, results=[speed.as_dict() for speed in found], settings=settings)


def run_memory(
    *, shape: dict[str, Any], group_sizes: Sequence[int], tokens: int, groups: int, demultiplexer: str
) -> dict[str, Any]:
    """One point a group size; the ratio is to the first."""
    options = {"multiplexer": "sign", "demultiplexer": demultiplexer}
    points = [measure_memory(Shape(**shape), k, groups=groups, tokens=tokens, **options) for k in group_sizes]
    results = [asdict(point) | {"ratio": point.peak / points[0].peak} for point in points]
    settings = {"shape": shape, "demultiplexer": demultiplexer}
    return make_record("memory", recipe=None, results=results, settings=settings)


def run_parts(
    *, shape: dict[str, Any], group_sizes: Sequence[int], tokens: int, groups: int, bf16: bool
) -> dict[str, Any]:
    """One row a group size."""
    found = measure_parts(Shape(**shape), group_sizes, tokens=tokens, groups=groups, bf16=bf16)
    settings = {"shape": shape, "tokens": tokens, "groups": groups, "bf16": bf16}
    return make_record("parts", recipe=None, results=[asdict(parts) for parts in found], settings=settings)


def shape_of(model: MuxPreTrainedModel) -> Shape:
    encoder: Any = model.config.backbone_config
    return Shape(
        layers=encoder.num_hidden_layers,
        hidden=encoder.hidden_size,
        heads=encoder.num_attention_heads,
        vocab_size=encoder.vocab_size,
        token_level=isinstance(model, MuxForTokenClassification),
    )
