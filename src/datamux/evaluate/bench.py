"""The benchmarks as run records: which contenders, measured how, and what came out."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from statistics import fmean
from typing import Any

from datamux.evaluate.contenders import (
    FromIds,
    FromTexts,
    Shape,
    inputs_of,
    lengths_of,
    random_rows,
)
from datamux.evaluate.memory import measure_memory
from datamux.evaluate.parts import measure_parts
from datamux.evaluate.records import make_record
from datamux.evaluate.rivals import new_rivals, on_engine, trained_rivals
from datamux.evaluate.speed import Contender, Work, compare_speed
from datamux.hub.loading import load_tokenizer
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
    also: Sequence[str] = (),
    hidden_dim: int | None = None,
    head_context: int = 0,
    bypass: bool = False,
    data_dir: str | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """The plain models on every engine, then the multiplexed one on every engine and group size.

    Without `engines`: torch, or the one that the model was exported for.
    """
    if texts and (model is None or lengths.startswith("fixed")):
        raise ValueError("--texts needs a trained model (for its tokenizer) and a task: --model FOLDER --lengths sst2")
    options: dict[str, Any] = {"hidden_dim": hidden_dim, "head_context": head_context, "bypass": bypass}
    if model is None:
        rivals = new_rivals(Shape(**shape), max(group_sizes), demultiplexers, engines, **options)
    elif any(options.values()):
        raise ValueError("--hidden-dim, --head-context and --bypass are for new models: a trained one has its own")
    else:
        rivals = trained_rivals(model, engines)
    rivals = rivals.with_smaller(also)
    size = rivals.shape
    if texts and size.token_level:
        raise ValueError(
            "--texts is for classifiers: how long a tagger takes depends on what it finds; use `datamux frontier`"
        )
    sizes = sorted({k for k in group_sizes if k <= rivals.capacity})
    if not sizes:
        raise ValueError(f"{model} has {rivals.capacity} slots; choose group sizes up to that")
    config = rivals.plain["plain"].config
    with ExitStack() as stack:
        runtimes = {
            (name, how): stack.enter_context(on_engine(given, how))
            for name, given in {**rivals.plain, **rivals.mixed}.items()
            for how in rivals.engines
        }
        if texts:
            assert model is not None
            tokenizer = load_tokenizer(model)
            words = inputs_of(load_split(get_task(lengths), "train", data_dir).first(POOL))
            known = Texts(tokenizer, max_tokens_of(tokenizer, config), token_level=False).window(words[:1000])
            tokens = fmean(known.lengths)

            def work(runtime: Runtime, k: int) -> Work:
                return FromTexts(Predictor(runtime, tokenizer, config, token_level=False), words, k)
        else:
            counts = lengths_of(lengths, POOL, data_dir, model=model)
            rows, tokens = random_rows(counts, size.vocab_size), fmean(counts)

            def work(runtime: Runtime, k: int) -> Work:
                return FromIds(runtime, rows, k)

        contenders = [
            Contender(
                f"{name}, {how}" if name in rivals.plain else f"{name}, {k} a pass, {how}",
                work(runtime, k),
                k,
                tokens,
                {"engine": how, "demultiplexer": None if name in rivals.plain else name},
                None if name == "plain" else f"plain, {how}",
            )
            for (name, how), runtime in runtimes.items()
            for k in ([1] if name in rivals.plain else sizes)
        ]
        found = compare_speed(contenders, rounds=rounds, seconds=seconds, samples=samples, tell=tell)
    settings = {
        "shape": asdict(size),
        "lengths": lengths,
        "texts": texts,
        "rounds": rounds,
        "capacity": rivals.capacity,
    }
    settings |= {name: value for name, value in options.items() if value}
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
