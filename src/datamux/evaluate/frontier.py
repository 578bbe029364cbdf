"""Accuracy against throughput for everything a user could run, to find which setting to use.

Every point is a model, an engine and a group size. The first model given is the plain one, with which the others are
compared. A point is on the frontier if no other is both faster and better. Scores are means over random groupings.
Throughput is measured with the predictor, which groups texts of similar length.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from datamux.evaluate.contenders import on_engine
from datamux.evaluate.evaluate_model import check_fits, default_sizes, find_task, load_rows, read_json
from datamux.evaluate.quality import Quality, flips_of, measure_quality
from datamux.evaluate.records import make_record
from datamux.evaluate.timing import Contender, Speed, compare_speed
from datamux.evaluate.workloads import FromTexts, inputs_of
from datamux.hub.loading import load_tokenizer
from datamux.inference.loading import load_runtime
from datamux.inference.predictor import Predictor
from datamux.inference.runtime import Runtime, TorchRuntime
from datamux.tasks.examples import Examples
from datamux.tasks.task import Task, load_splits
from datamux.zoo import find_model, shipped_models


@dataclass(frozen=True)
class Point:
    """One way to do the job. `drop` is how many percentage points it scores below the first point.

    `ratio` is its throughput against the first point, which ran right before and after it. It decides what is faster,
    because `rate` changes when the machine slows down. `steps` and `learning_rate` are those of the task's training, if
    they are known. `flips` is the share of answers that change when only the neighbours change; None for one text per
    pass, for numbers, and for models that were measured before flips were.
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
    positions: int = 0  # per pass, the best of those tried
    rates: list[float] = field(default_factory=list)  # one per round
    flips: float | None = None

    @property
    def name(self) -> str:
        return f"{self.model}, {self.engine}" + (f", {self.group_size} per pass" if self.group_size > 1 else "")


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

    Without `models`, those in the package are measured, if some are for this task.
    """
    models = models or packaged_models(task)
    chosen = find_task(task, splits, text, label, token_level)
    names = list(names) or list(models)
    if len(names) != len(models):
        raise ValueError(f"got {len(names)} names for {len(models)} models: give every model a --name, or none of them")
    examples = load_splits(chosen, splits, data_dir)
    settings: dict[str, Any] = {"engines": engines, "group_sizes": group_sizes, "groupings": groupings}
    contenders: list[Contender] = []
    qualities: list[Quality] = []
    with ExitStack() as stack:
        for short, folder in zip(names, models, strict=True):
            for contender, quality in _scored_settings(folder, short, chosen, examples, stack, **settings):
                contenders.append(contender)
                qualities.append(quality)
                flips = "" if (share := flips_of(quality)) is None else f", {share:.1%} of the answers flip"
                tell(f"{contender.name}: {quality.score:.2%}{flips}")
        speeds = compare_speed(contenders, rounds=rounds, seconds=seconds, tell=tell)
    points = [_point(speed, quality, qualities[0].score) for speed, quality in zip(speeds, qualities, strict=True)]
    return make_record(
        "frontier",
        recipe=None,
        results=[asdict(point) for point in mark_best(points)],
        task=task,
        splits=list(splits),
        evaluation={"groupings": groupings, "rounds": rounds, "seconds": seconds},
        recommendation=recommendation(points, max_drop),
    )


def _scored_settings(
    folder: str,
    short: str,
    task: Task,
    examples: Examples,
    stack: ExitStack,
    *,
    engines: Sequence[str],
    group_sizes: Sequence[int],
    groupings: int,
) -> Iterator[tuple[Contender, Quality]]:
    """One model on every engine at every group size, each with how good it is."""
    name = find_model(folder)
    loaded, config, tags = load_runtime(name)
    check_fits(tags, task, name)
    rows, labels = load_rows(name, config, task, examples)
    tokens = float((rows.ends - rows.starts).float().mean())
    texts, trained = inputs_of(examples), {"folder": folder, **training_of(Path(name))}
    runtimes: dict[str, Runtime]
    if isinstance(loaded, TorchRuntime):
        runtimes = {engine: stack.enter_context(on_engine(loaded.model, engine)) for engine in engines}
    else:
        runtimes = {getattr(loaded, "name", "exported"): loaded}
    for engine, runtime in runtimes.items():
        predictor = Predictor(runtime, load_tokenizer(name), config, token_level=tags)
        wanted = group_sizes or default_sizes(runtime.num_instances)
        sizes = [k for k in wanted if k <= runtime.num_instances] or [1]  # a plain model has one slot
        about = {"model": short, "engine": engine, **trained}
        for quality in measure_quality(runtime, rows, labels, group_sizes=sizes, groupings=groupings):
            k = quality.group_size
            title = f"{short}, {engine}, {k} per pass"
            yield Contender(title, FromTexts(predictor, texts, k), k, tokens, about), quality


def _point(speed: Speed, quality: Quality, first_score: float) -> Point:
    found = speed.as_dict()
    measured = ("group_size", "rate", "ratio", "lowest", "highest", "positions", "rates")
    about = speed.about | {name: found[name] for name in measured}
    return Point(**about, score=quality.score, drop=100 * (first_score - quality.score), flips=flips_of(quality))


def packaged_models(task: str) -> list[str]:
    """The models in the package that were trained for this task, the plain one first."""
    cards = {name: card for name, card in shipped_models().items() if card["task"] == task}
    if not cards:
        known = ", ".join(sorted({card["task"] for card in shipped_models().values()}))
        raise ValueError(
            f"no model in the package is for {task} (they are for {known}): give your own models, the plain one first: "
            "--model PLAIN --model OTHER"
        )
    return sorted(cards, key=lambda name: int(cards[name]["num_instances"]))


def training_of(folder: Path) -> dict[str, Any]:
    """Steps and learning rate of a model's training on its task, if they are kept beside it."""
    recipe = (read_json(folder / "recipe.json") or {}).get("task", {})
    stages = [stage for stage in read_json(folder / "training.json") or [] if stage["stage"] == "task"]
    steps = stages[-1]["steps"] if stages else recipe.get("steps")
    return {"steps": steps, "learning_rate": recipe.get("learning_rate")}


def mark_best(points: Sequence[Point]) -> list[Point]:
    """Mark each point that is on the frontier."""

    def is_best(point: Point) -> bool:
        no_worse = [other for other in points if other.ratio >= point.ratio and other.score >= point.score]
        return all((other.ratio, other.score) == (point.ratio, point.score) for other in no_worse)

    return [replace(point, best=is_best(point)) for point in points]


def recommend(points: Sequence[Point], max_drop: float) -> Point:
    """The fastest point that loses no more than `max_drop` percentage points against the first."""
    allowed = [point for point in points if point.drop <= max_drop]
    if not allowed:
        raise ValueError(
            f"no setting stays within {max_drop} points of {points[0].name}; allow a larger loss with --max-drop"
        )
    return max(allowed, key=lambda point: point.ratio)


def recommendation(points: Sequence[Point], max_drop: float) -> dict[str, Any]:
    """The recommended point, and one line that says so."""
    choice = recommend(points, max_drop)
    lost = f"{choice.drop:.2f} points lost" if choice.drop > 0 else "no points lost"
    line = (
        f"Within {max_drop:g} points of {points[0].name}: use {choice.name} ({choice.ratio:.1f} times as fast, {lost})."
    )
    return {"max_drop": max_drop, "name": choice.name, "ratio": choice.ratio, "drop": choice.drop, "line": line}
