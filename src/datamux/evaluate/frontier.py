"""Accuracy against throughput, measured alike for everything a user could run: which setting should it be?

Every point is a model, an engine and a group size. The first model given is the plain one that others are compared
with. A point is on the frontier if none is both faster and better. Scores are means over random groupings; throughput
is measured as the predictor runs, which seats texts of similar length together.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from datamux.evaluate.contenders import FromTexts, engine, inputs_of
from datamux.evaluate.quality import measure_quality
from datamux.evaluate.records import make_record
from datamux.evaluate.report import check_fits, default_sizes, find_task, load_rows, read_json
from datamux.evaluate.speed import Contender, compare_speed
from datamux.hub.loading import load_tokenizer
from datamux.inference.loading import load_runtime
from datamux.inference.predictor import Predictor
from datamux.inference.runtime import Runtime, TorchRuntime
from datamux.tasks.task import load_splits
from datamux.zoo import find_model, shipped_models


@dataclass(frozen=True)
class Point:
    """One way to do the job. `drop` is percentage points below the first point.

    `ratio` is throughput against the first point, which ran right before and after: it decides what is faster, since
    a machine that slows down changes `rate`. `steps` and `learning_rate` are those of the task's training, if known.
    """

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
    folder: str = ""
    steps: int | None = None
    learning_rate: float | None = None
    positions: int = 0  # a pass, the best of those tried
    rates: list[float] = field(default_factory=list)  # one a round

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
    max_drop: float = 1.0,
    data_dir: str | None = None,
    text: Sequence[str] = ("text",),
    label: str = "label",
    token_level: bool | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Score and time every model on every engine at every group size it has. Throughput is from texts to answers.

    Without `models`: those in the package, if they are for this task.
    """
    models = models or packaged_models(task)
    chosen = find_task(task, splits, text, label, token_level)
    names = list(names) or list(models)
    if len(names) != len(models):
        raise ValueError(f"{len(models)} models and {len(names)} names for them: give one name each, or none")
    examples = load_splits(chosen, splits, data_dir)
    given = inputs_of(examples)
    contenders: list[Contender] = []
    scores: list[float] = []
    with ExitStack() as stack:
        for short, given_name in zip(names, models, strict=True):
            name = find_model(given_name)
            loaded, config, tags = load_runtime(name)
            check_fits(tags, chosen, name)
            rows, labels = load_rows(name, config, chosen, examples)
            trained = {"folder": given_name, **training_of(Path(name))}
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
                    work, about = FromTexts(predictor, given, k), {"model": short, "engine": how, **trained}
                    contenders.append(Contender(f"{short}, {how}, {k} a pass", work, k, tokens, about))
                    scores.append(quality.score)
                    tell(f"{contenders[-1].name}: {quality.score:.2%}")
        speeds = compare_speed(contenders, rounds=rounds, seconds=seconds, tell=tell)
    points = [
        Point(
            **speed.about,
            group_size=speed.group_size,
            score=score,
            drop=100 * (scores[0] - score),
            rate=speed.rate,
            ratio=speed.ratio,
            lowest=min(speed.ratios),
            highest=max(speed.ratios),
            positions=speed.positions,
            rates=speed.rates,
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
        recommendation=recommendation(points, max_drop),
    )


def packaged_models(task: str) -> list[str]:
    """The models in the package that were trained for this task, the plain one first."""
    cards = {name: card for name, card in shipped_models().items() if card["task"] == task}
    if not cards:
        known = ", ".join(sorted({card["task"] for card in shipped_models().values()}))
        raise ValueError(
            f"no model in the package is for {task} (there are some for {known}): give yours, the plain one first, "
            "--model PLAIN --model OTHER"
        )
    return sorted(cards, key=lambda name: int(cards[name]["num_instances"]))


def training_of(folder: Path) -> dict[str, Any]:
    """Steps and learning rate of a model's training on its task, where they are kept beside it."""
    recipe = (read_json(folder / "recipe.json") or {}).get("task", {})
    stages = [stage for stage in read_json(folder / "training.json") or [] if stage["stage"] == "task"]
    steps = stages[-1]["steps"] if stages else recipe.get("steps")
    return {"steps": steps, "learning_rate": recipe.get("learning_rate")}


def mark_best(points: Sequence[Point]) -> list[Point]:
    """Say of each point whether it is on the frontier."""

    def beaten(point: Point) -> bool:
        own = (point.ratio, point.score)
        others = [(other.ratio, other.score) for other in points]
        return any(ratio >= own[0] and score >= own[1] and (ratio, score) != own for ratio, score in others)

    return [replace(point, best=not beaten(point)) for point in points]


def recommend(points: Sequence[Point], max_drop: float) -> Point:
    """The fastest point that loses no more than `max_drop` percentage points against the first."""
    allowed = [point for point in points if point.drop <= max_drop]
    if not allowed:
        raise ValueError(f"nothing stays within {max_drop} points of {points[0].name}; allow more with --max-drop")
    return max(allowed, key=lambda point: point.ratio)


def recommendation(points: Sequence[Point], max_drop: float) -> dict[str, Any]:
    """What is recommended, and one line that says so."""
    choice = recommend(points, max_drop)
    line = (
        f"Within {max_drop:g} points of {points[0].name}: use {choice.name} "
        f"({choice.ratio:.1f} times as fast, {choice.drop:.2f} points lost)."
    )
    return {"max_drop": max_drop, "name": choice.name, "ratio": choice.ratio, "drop": choice.drop, "line": line}
