"""The benchmarks as run records: which contenders, measured how, and what came out."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from statistics import fmean, median
from typing import Any

from datamux.demultiplexers import DEMULTIPLEXERS
from datamux.errors import check_choice
from datamux.evaluate.contenders import (
    MAX_TOKENS,
    TOKENIZER,
    FromIds,
    FromTexts,
    Shape,
    inputs_of,
    lengths_of,
    random_rows,
)
from datamux.evaluate.memory import MemoryPoint, measure_memory
from datamux.evaluate.parts import measure_parts
from datamux.evaluate.records import make_record
from datamux.evaluate.rivals import find_rivals, on_engine
from datamux.evaluate.speed import Contender, Work, compare_speed
from datamux.evaluate.text_parts import measure_text_parts
from datamux.hub.loading import load_tokenizer
from datamux.inference.exported import ExportedRuntime
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

    Without `engines`: torch, or the one that the model was exported for. Without a model, new ones of `shape`, whose
    texts are split as by the models in the package.
    """
    if texts and lengths.startswith("fixed"):
        raise ValueError("--texts needs a task whose texts to take: --lengths sst2")
    options: dict[str, Any] = {"hidden_dim": hidden_dim, "head_context": head_context, "bypass": bypass}
    rivals = find_rivals(model, shape, group_sizes, demultiplexers, engines, **options).with_smaller(also)
    size = rivals.shape
    if texts and size.token_level:
        raise ValueError(
            "--texts is for classifiers: how long a tagger takes depends on what it finds; use `datamux frontier`"
        )
    sizes = rivals.sizes(group_sizes)
    config = rivals.plain["plain"].config
    with ExitStack() as stack:
        runtimes = {
            (name, how): stack.enter_context(on_engine(given, how))
            for name, given in {**rivals.plain, **rivals.mixed}.items()
            for how in rivals.engines
        }
        if texts:
            tokenizer = load_tokenizer(model or TOKENIZER)
            if model is None:
                tokenizer.model_max_length = MAX_TOKENS
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
    *,
    shape: dict[str, Any],
    group_sizes: Sequence[int],
    tokens: int,
    groups: int,
    demultiplexer: str,
    rounds: int = 3,
) -> dict[str, Any]:
    """One row a group size, the median of `rounds` processes. Ratios are to the median of the first row."""
    check_choice("demultiplexer", demultiplexer, DEMULTIPLEXERS)
    options = {"multiplexer": "sign", "demultiplexer": demultiplexer}
    seen: dict[int, list[MemoryPoint]] = {k: [] for k in group_sizes}
    for _ in range(rounds):
        for k, points in seen.items():
            points.append(measure_memory(Shape(**shape), k, groups=groups, tokens=tokens, **options))
    first = median(point.peak for point in seen[group_sizes[0]])
    results = []
    for k, points in seen.items():
        peaks = [point.peak for point in points]
        row = {"group_size": k, "groups": groups, "tokens": tokens, "model": median(point.model for point in points)}
        ratios = {"ratio": median(peaks) / first, "lowest": min(peaks) / first, "highest": max(peaks) / first}
        results.append(row | {"peak": median(peaks), "peaks": peaks} | ratios)
    settings = {"shape": shape, "demultiplexer": demultiplexer, "rounds": rounds}
    return make_record("memory", recipe=None, results=results, settings=settings)


def run_parts(
    *,
    shape: dict[str, Any],
    group_sizes: Sequence[int],
    tokens: int,
    groups: int,
    bf16: bool,
    model: str | None = None,
    demultiplexer: str = "gate",
    hidden_dim: int | None = None,
    head_context: int = 0,
) -> dict[str, Any]:
    """One row a group size."""
    options: dict[str, Any] = {"hidden_dim": hidden_dim, "head_context": head_context}
    rivals = find_rivals(model, shape, group_sizes, [demultiplexer], [], **options)
    ((name, mixed),) = rivals.mixed.items()
    if isinstance(mixed, ExportedRuntime):
        raise ValueError(f"{model} is exported: its parts cannot be told apart; give the model that it was made from")
    plain, sizes = rivals.plain["plain"], rivals.sizes(group_sizes)
    found = measure_parts(plain, mixed, sizes, tokens=tokens, groups=groups, bf16=bf16)
    settings = {"shape": asdict(rivals.shape), "tokens": tokens, "groups": groups, "bf16": bf16}
    settings |= {"demultiplexer": name, "model": model}
    settings |= {option: value for option, value in options.items() if value}
    return make_record("parts", recipe=None, results=[asdict(parts) for parts in found], settings=settings)


def run_text_parts(
    *, model: str, task: str, group_sizes: Sequence[int], bf16: bool, data_dir: str | None = None
) -> dict[str, Any]:
    """The plain model's row first, then one a group size."""
    rivals = find_rivals(model, {}, group_sizes, [], [])
    ((name, mixed),) = rivals.mixed.items()
    tokenizer, given = load_tokenizer(model), inputs_of(load_split(get_task(task), "train", data_dir).first(POOL))
    if bf16 and isinstance(mixed, ExportedRuntime):
        raise ValueError(f"{model} is exported and has its own precision: leave --bf16 out")
    (how,) = ["bf16"] if bf16 else rivals.engines
    config, tags = rivals.plain["plain"].config, rivals.shape.token_level
    with on_engine(rivals.plain["plain"], how) as plain, on_engine(mixed, how) as other:
        predictors = {
            short: Predictor(runtime, tokenizer, config, token_level=tags)
            for short, runtime in (("plain", plain), (name, other))
        }
        found = measure_text_parts(predictors, given, sorted({1, *rivals.sizes(group_sizes)}))
    settings = {"shape": asdict(rivals.shape), "model": model, "lengths": task, "engine": how}
    return make_record("text parts", recipe=None, results=[asdict(parts) for parts in found], settings=settings)
