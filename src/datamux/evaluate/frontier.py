"""Accuracy against throughput, measured alike for everything a user could run: which setting should it be?

Every point is a model, an engine and a group size. The first model given is the plain one that others are compared
with. A point is on the frontier if none is both faster and better. Scores are means over random groupings; throughput
is measured as the predictor runs, which seats texts of similar length together.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any

from datamux.evaluate.contenders import FromTexts, engine, inputs_of
from datamux.evaluate.quality import measure_quality
from datamux.evaluate.records import make_record
from datamux.evaluate.report import check_fits, default_sizes, find_task, load_rows
from datamux.evaluate.speed import Contender, compare_speed
from datamux.hub.loading import load_tokenizer
from datamux.inference.loading import load_runtime
from datamux.inference.predictor import Predictor
from datamux.inference.runtime import Runtime, TorchRuntime
from datamux.tasks.task import load_splits


@dataclass(frozen=True)
class Point:
    """One way to do the job. `ratio` is throughput against the first point; `drop` is percentage points below it."""

    model: str
    engine: str
    group_size: int
    score: float
    drop: float
    rate: float
    ratio: float
    lowest: float
    highest: float
    best: bool = False  # nothing else is both faster and better

    @property
    def name(self) -> str:
        return f"{self.model}, {self.engine}" + (f", {self.group_size} a pass" if self.group_size > 1 else "")


def measure_frontier(
    models: Sequence[str],
    task: str,
    *,
    names: Sequence[str] = (),
    splits: Sequence[str] = ("validation",),
    engines: Sequence[str] = ("torch",),
    group_sizes: Sequence[int] = (),
    groupings: int = 3,
    rounds: int = 5,
    seconds: float = 1.0,
    data_dir: str | None = None,
    text: Sequence[str] = ("text",),
    label: str = "label",
    token_level: bool | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Score and time every model on every engine at every group size it has. Throughput is from texts to answers."""
    chosen = find_task(task, splits, text, label, token_level)
    names = list(names) or list(models)
    if len(names) != len(models):
        raise ValueError(f"{len(models)} models and {len(names)} names for them: give one name each, or none")
    examples = load_splits(chosen, splits, data_dir)
    given = inputs_of(examples)
    contenders: list[Contender] = []
    scores: list[float] = []
    with ExitStack() as stack:
        for short, name in zip(names, models, strict=True):
            loaded, config, tags = load_runtime(name)
            check_fits(tags, chosen, name)
            rows, labels = load_rows(name, config, chosen, examples)
            tokens = float((rows.ends - rows.starts).float().mean())
            runtimes: dict[str, Runtime]
            if isinstance(loaded, TorchRuntime):
                runtimes = {how: stack.enter_context(engine(loaded.model, how)) for how in engines}
            else:
                runtimes = {getattr(loaded, "name", "exported"): loaded}
            for how, runtime in runtimes.items():
                predictor = Predictor(runtime, load_tokenizer(name), config, token_level=tags)
                wanted = group_sizes or default_sizes(runtime.num_instances)
                sizes = [k for k in wanted if k <= runtime.num_instances] or [1]  # a plain model has one place
                for quality in measure_quality(runtime, rows, labels, group_sizes=sizes, groupings=groupings):
                    k = quality.group_size
                    work, about = FromTexts(predictor, given, k), {"model": short, "engine": how}
                    contenders.append(Contender(f"{short}, {how}, {k} a pass", work, k, tokens, about))
                    scores.append(quality.score)
                    tell(f"{contenders[-1].name}: {quality.score:.2%}")
        speeds = compare_speed(contenders, rounds=rounds, seconds=seconds, tell=tell)
    points = [
        Point(
            model=speed.about["model"],
            engine=speed.about["engine"],
            group_size=speed.group_size,
            score=score,
            drop=100 * (scores[0] - score),
            rate=speed.rate,
            ratio=speed.ratio,
            lowest=min(speed.ratios),
            highest=max(speed.ratios),
        )
        for speed, score in zip(speeds, scores, strict=True)
    ]
    return make_record(
        "frontier",
        recipe=None,
        results=[asdict(point) for point in mark_best(points)],
        task=task,
        splits=list(splits),
        evaluation={"groupings": groupings, "rounds": rounds, "seconds": seconds},
    )


def mark_best(points: Sequence[Point]) -> list[Point]:
    """Say of each point whether it is on the frontier."""

    def beaten(point: Point) -> bool:
        return any(
            other.rate >= point.rate
            and other.score >= point.score
            and (other.rate, other.score) != (point.rate, point.score)
            for other in points
        )

    return [replace(point, best=not beaten(point)) for point in points]


def recommend(points: Sequence[Point], max_drop: float) -> Point:
    """The fastest point that loses no more than `max_drop` percentage points against the first."""
    allowed = [point for point in points if point.drop <= max_drop]
    if not allowed:
        raise ValueError(f"nothing stays within {max_drop} points of {points[0].name}; allow more with --max-drop")
    return max(allowed, key=lambda point: point.rate)
