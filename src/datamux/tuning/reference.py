"""The reference: the encoder, fine-tuned plainly on the user's rows, or a classifier of theirs, taken as it is."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from datamux.evaluate.row_scores import Metric
from datamux.evaluate.workloads import inputs_of
from datamux.hub.loading import load_config, load_tokenizer, tags_tokens
from datamux.inference.loading import load_runtime
from datamux.inference.predictor import load
from datamux.inference.runtime import TorchRuntime
from datamux.tasks.examples import Examples
from datamux.train.build import is_ours
from datamux.train.recipe import Recipe, parse_recipe
from datamux.train.stages import train
from datamux.train.teachers import can_teach, order_of
from datamux.tuning.contender import PLAIN, PLAIN_MODEL, best_by, run_settings
from datamux.tuning.data import Data
from datamux.tuning.measure import score_predictor
from datamux.tuning.pace import seconds_per_step
from datamux.tuning.progress import in_words, of_budget
from datamux.tuning.search import SLOWER, forget_checkpoints
from datamux.tuning.state import State
from datamux.tuning.subject import Encoder, Subject, longest_text, tokens_allowed
from datamux.tuning.teaching import written_to

SHARE = 0.25  # of the budget, at most
EPOCHS, MOST_STEPS = 10, 3000  # at most; early stopping usually ends before
LEAST_STEPS = 30
NEW_STEPS = 2000  # of an encoder that knows nothing yet, at most
NEW_PACE = 0.15  # seconds that a step of such an encoder takes, about
SAMPLE = 5000  # texts that decide how long a text may be


def find_reference(
    encoder: Encoder,
    data: Data,
    stop_rows: Examples,
    metric: Metric,
    folder: Path,
    state: State,
    budget: float,
    seed: int,
    tell: Callable[[str], None],
) -> Subject:
    """Train or take the reference, and note its score and speed in the state."""
    about = state.data.get("reference", {})
    if is_the_reference(encoder, data):
        model, max_tokens = str(_copied(encoder.name, data, folder / "reference")), tokens_allowed(encoder.name)
        tell(f"the reference is {encoder.name}, as it is")
    else:
        if encoder.is_classifier and tags_tokens(load_config(encoder.name)) != data.tags:
            tell(f"{encoder.name} was made for another kind of task: only its encoder is used")
        max_tokens = _max_tokens(encoder, data, state, tell)
        model = str(_trained(encoder, data, folder, state, budget, max_tokens, metric, seed, tell))
    if "stop_score" not in about:
        found = score_predictor(
            load(model, device="cpu").with_settings(tells_cuts=False), stop_rows, data.labels, metric, 1
        )
        about |= {"folder": model, "max_tokens": max_tokens, "stop_score": found.score, "rate": found.rate}
        state.save(reference=about)
        tell(f"the reference: {100 * found.score:.1f}, about {found.rate:,.0f} texts per second")
    ours = is_ours(load_config(model))
    return Subject(encoder, model, ours, max_tokens, data.tags, len(data.train))


def is_the_reference(encoder: Encoder, data: Data) -> bool:
    """Whether the user named a classifier for these labels, which is then taken as it is."""
    return encoder.is_classifier and can_teach(encoder.name, data.labels, data.task.kind)


def in_order_of(encoder: Encoder, data: Data) -> Data:
    """The same data with the labels in the order of the user's classifier: all models then number them alike."""
    if data.labels.problem == "regression":
        return data
    order = order_of(load_config(encoder.name), data.labels)
    names = tuple(data.labels.names[order.index(number)] for number in range(len(order)))
    return replace(data, labels=replace(data.labels, names=names), task=replace(data.task, label_names=names))


def _copied(name: str, data: Data, place: Path) -> Path:
    """The user's classifier in the folder of the search, because its answers to the rows are kept beside it.

    Its labels get the spelling of the rows. It may know them in other letter case, or only as LABEL_0, LABEL_1, ...
    """
    if place.exists():
        return place
    runtime, _, _ = load_runtime(name, device="cpu", original=True)
    if not isinstance(runtime, TorchRuntime):
        raise ValueError(f"{name} is exported; give the model that it was exported from")
    model, tokenizer = runtime.model, load_tokenizer(name)
    model.config.id2label = dict(enumerate(data.labels.names))
    model.config.label2id = {label: number for number, label in enumerate(data.labels.names)}
    model.config.problem_type = data.labels.problem
    tokenizer.model_max_length = tokens_allowed(name)
    part = place.with_suffix(".part")  # a copy that was interrupted is not taken for a whole one
    tokenizer.save_pretrained(part)
    model.save_pretrained(part)
    part.rename(place)
    return place


def _max_tokens(encoder: Encoder, data: Data, state: State, tell: Callable[[str], None]) -> int:
    if not encoder.name:
        return 64
    wanted = longest_text(inputs_of(data.train.first(SAMPLE)), load_tokenizer(encoder.name))
    allowed = tokens_allowed(encoder.name)
    if wanted > allowed:
        state.note(f"longer texts are cut after {allowed} tokens, which is all that the encoder can read", tell)
    return min(wanted, allowed)


def _trained(
    encoder: Encoder,
    data: Data,
    folder: Path,
    state: State,
    budget: float,
    max_tokens: int,
    metric: Metric,
    seed: int,
    tell: Callable[[str], None],
) -> Path:
    place = folder / "reference"
    steps = state.data.get("reference_steps")
    if steps is None:
        steps, seconds = _steps(encoder, data, budget, max_tokens, metric, seed)
        state.save(reference_steps=steps, reference_seconds=seconds)
    if not (place / "task" / "model" / "training.json").exists():
        tell(
            f"the reference: up to {steps:,} steps on {len(data.train):,} rows, texts of up to {max_tokens} tokens, "
            f"about {in_words(state.data.get('reference_seconds', SHARE * budget))}; {of_budget(budget, state.spent)}"
        )
    with written_to(folder / "training.log") as aloud:

        def say(done: int, seconds: float) -> None:
            so_far = f"the reference: {done:,} of up to {steps:,} steps, about {in_words(seconds)} more"
            aloud(lambda: tell(f"{so_far}; {of_budget(budget, state.spent)}"))

        recipe = _recipe(encoder, data, steps, max_tokens, metric, seed)
        model = train(recipe, place, task=data.task, progress=say)
    forget_checkpoints(model.parent)
    stopped = json.loads((model / "training.json").read_text())[-1]["steps"]
    if stopped < steps:
        tell(f"the reference stopped after {stopped:,} steps, because it no longer got better")
    elif steps < (most := _most_steps(encoder, data)):
        state.note(
            f"warning: the budget left the reference {steps:,} steps, where {most:,} were planned; all others learn "
            "from it, so a larger --budget in a new folder may make everything better",
            tell,
        )
    return model


def _most_steps(encoder: Encoder, data: Data) -> int:
    most: int = max(10 * LEAST_STEPS, min(MOST_STEPS, EPOCHS * len(data.train) // PLAIN["groups"]))
    return most if encoder.name else min(most, NEW_STEPS)


def _steps(
    encoder: Encoder, data: Data, budget: float, max_tokens: int, metric: Metric, seed: int
) -> tuple[int, float]:
    """How many steps the reference may train, and about how many seconds they take."""
    pace = NEW_PACE
    if encoder.name:
        recipe = _recipe(encoder, data, 1, max_tokens, metric, seed)
        pace = SLOWER * seconds_per_step(recipe, data.train, data.labels, data.task.kind)
    steps = max(LEAST_STEPS, int(min(_most_steps(encoder, data), budget * SHARE / pace)))
    return steps, steps * pace


def _recipe(encoder: Encoder, data: Data, steps: int, max_tokens: int, metric: Metric, seed: int) -> Recipe:
    rate = 5e-4 if not encoder.name else 3e-5 if encoder.is_wide else 1e-4
    model = PLAIN_MODEL | {"start": encoder.name, "max_tokens": max_tokens}
    model |= {"head_context": 2} if data.tags else {}  # as all that learn from it
    task = PLAIN | {"steps": steps, "learning_rate": rate, "teacher": "none", "patience": 3}
    task |= {"best_by": best_by(metric)}
    every = max(1, -(-steps // 8))
    return parse_recipe({"model": model, "task": task, "run": run_settings(steps, seed) | {"eval_steps": every}})
