"""The benchmarks of `datamux bench`, each as a run record: speed, memory, and where the time goes."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from statistics import median
from typing import Any

from datamux.demultiplexers import DEMULTIPLEXERS
from datamux.errors import check_choice
from datamux.evaluate.breakdown import measure_breakdown, measure_text_breakdown
from datamux.evaluate.contenders import BASELINE, Models, Shape, find_models, on_engine
from datamux.evaluate.memory_benchmark import measure_memory
from datamux.evaluate.records import make_record
from datamux.evaluate.timing import Contender, compare_speed
from datamux.evaluate.workloads import POOL, Workload, inputs_of, longest_of, task_texts, token_ids
from datamux.hub.loading import load_tokenizer
from datamux.inference.exported import ExportedRuntime
from datamux.inference.predictor import Predictor
from datamux.tasks.task import get_task, load_split


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
    plain_sizes: Sequence[str] = (),
    hidden_dim: int | None = None,
    head_context: int = 0,
    data_dir: str | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Times the baselines on every engine, then the multiplexed models on every engine at every group size.

    Without `engines`, they run in torch, or in the engine that the model was exported for. Without a model, new ones of
    `shape` are timed, with the tokenizer of the models in the package.
    """
    if texts and lengths.startswith("fixed"):
        raise ValueError("--texts needs a task to take the texts from, such as --lengths sst2")
    options: dict[str, Any] = {"hidden_dim": hidden_dim, "head_context": head_context}
    longest = longest_of(lengths)
    models = find_models(model, shape, group_sizes, demultiplexers, engines, tokens=longest, **options)
    models = models.with_baselines(plain_sizes)
    if texts and models.shape.token_level:
        raise ValueError(
            "--texts is for classifiers, because the time of a tagger depends on what it finds: use `datamux frontier`"
        )
    sizes = models.sizes(group_sizes)
    if texts:
        workload = task_texts(lengths, models.baseline.config, model=model, data_dir=data_dir)
    else:
        workload = token_ids(lengths, models.shape.vocab_size, model=model, data_dir=data_dir)
    with ExitStack() as stack:
        contenders = _contenders(models, sizes, workload, stack)
        found = compare_speed(contenders, rounds=rounds, seconds=seconds, samples=samples, tell=tell)
    settings = {
        "shape": asdict(models.shape),
        "lengths": lengths,
        "texts": texts,
        "rounds": rounds,
        "capacity": models.capacity,
    }
    settings |= {name: value for name, value in options.items() if value}
    return make_record("speed", recipe=None, results=[speed.as_dict() for speed in found], settings=settings)


def _contenders(models: Models, sizes: Sequence[int], workload: Workload, stack: ExitStack) -> list[Contender]:
    """Every model on every engine: baselines once, multiplexed models at every group size."""
    contenders = []
    for name, model in {**models.baselines, **models.multiplexed}.items():
        is_baseline = name in models.baselines
        for engine in models.engines:
            runtime = stack.enter_context(on_engine(model, engine))
            about = {"engine": engine, "demultiplexer": None if is_baseline else name}
            against = None if name == BASELINE else f"{BASELINE}, {engine}"
            for k in [1] if is_baseline else sizes:
                title = f"{name}, {engine}" if is_baseline else f"{name}, {k} per pass, {engine}"
                contenders.append(Contender(title, workload.work(runtime, k), k, workload.tokens, about, against))
    return contenders


def run_memory(
    *,
    shape: dict[str, Any],
    group_sizes: Sequence[int],
    tokens: int,
    groups: int,
    demultiplexer: str,
    rounds: int = 3,
) -> dict[str, Any]:
    """One row per group size: the median of `rounds` processes. Ratios are to the median of the first row."""
    check_choice("demultiplexer", demultiplexer, DEMULTIPLEXERS)
    options = {"multiplexer": "sign", "demultiplexer": demultiplexer}
    seen: dict[int, list[dict[str, float]]] = {k: [] for k in group_sizes}
    roomy = Shape(**shape).with_room_for(tokens, max(group_sizes))
    for _ in range(rounds):
        for k, points in seen.items():
            points.append(measure_memory(roomy, k, groups=groups, tokens=tokens, **options))
    first = median(point["peak"] for point in seen[group_sizes[0]])
    results = []
    for k, points in seen.items():
        peaks = [point["peak"] for point in points]
        row = {"group_size": k, "groups": groups, "tokens": tokens, "model": median(point["model"] for point in points)}
        ratios = {"ratio": median(peaks) / first, "lowest": min(peaks) / first, "highest": max(peaks) / first}
        results.append(row | {"peak": median(peaks), "peaks": peaks} | ratios)
    settings = {"shape": shape, "demultiplexer": demultiplexer, "rounds": rounds}
    return make_record("memory", recipe=None, results=results, settings=settings)


def run_breakdown(
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
    """Where the time of a pass goes: one row per group size."""
    options: dict[str, Any] = {"hidden_dim": hidden_dim, "head_context": head_context}
    models = find_models(model, shape, group_sizes, [demultiplexer], [], tokens=tokens, **options)
    ((name, mixed),) = models.multiplexed.items()
    if isinstance(mixed, ExportedRuntime):
        raise ValueError(f"{model} is exported, which hides its parts; give the model that it was exported from")
    sizes = models.sizes(group_sizes)
    found = measure_breakdown(models.baseline, mixed, sizes, tokens=tokens, groups=groups, bf16=bf16)
    settings = {"shape": asdict(models.shape), "tokens": tokens, "groups": groups, "bf16": bf16}
    settings |= {"demultiplexer": name, "model": model}
    settings |= {option: value for option, value in options.items() if value}
    return make_record("breakdown", recipe=None, results=found, settings=settings)


def run_text_breakdown(
    *, model: str, task: str, group_sizes: Sequence[int], bf16: bool, data_dir: str | None = None
) -> dict[str, Any]:
    """Where the time goes from texts to answers: the baseline's row first, then one row per group size."""
    models = find_models(model, {}, group_sizes, [], [])
    ((name, mixed),) = models.multiplexed.items()
    tokenizer, given = load_tokenizer(model), inputs_of(load_split(get_task(task), "train", data_dir).first(POOL))
    if bf16 and isinstance(mixed, ExportedRuntime):
        raise ValueError(f"{model} is exported and keeps the precision it was exported with: leave --bf16 out")
    (how,) = ["bf16"] if bf16 else models.engines
    config, token_level = models.baseline.config, models.shape.token_level
    with on_engine(models.baseline, how) as baseline, on_engine(mixed, how) as multiplexed:
        predictors = {
            short: Predictor(runtime, tokenizer, config, token_level=token_level)
            for short, runtime in ((BASELINE, baseline), (name, multiplexed))
        }
        found = measure_text_breakdown(predictors, given, sorted({1, *models.sizes(group_sizes)}))
    settings = {"shape": asdict(models.shape), "model": model, "lengths": task, "engine": how}
    return make_record("text breakdown", recipe=None, results=found, settings=settings)
