"""The methods of the papers that followed, and ours, on one fine-tuned encoder with one budget: `STEPS` of `ROWS` rows.

Methods and rivals start from the same fine-tuned encoder, which is their teacher, and read as many rows and tokens.
MUX-PLM alone starts from the encoder before that, with two stages more, which all tasks share, and has no teacher.
Mixed after the second of six layers, except where the method mixes words.
"""

from dataclasses import dataclass, field
from typing import Any

from datamux.reproduce.experiment import Experiment

LONGEST_TEXT = {"sst2": 48, "banking77": 64, "conll2003": 64}  # in tokens, as the plain encoder was fine-tuned
TASKS = tuple(LONGEST_TEXT)
SIZES = (2, 4, 8)
SEEDS = (0, 1, 2)
STEPS = 600
PLAIN = "minilm-plain-6-layers"  # what all are compared with
ROWS = {"sst2": 64, "banking77": 64, "conll2003": 48}  # of a step; of a tagger, every token is demultiplexed
CUT = (5, 4, 3, 2)  # layers that the simple rivals keep
PRETRAINED = "mux-plm-pretrained"


@dataclass(frozen=True)
class Method:
    """One row of the table. `trains` says what is trained; `start` names an experiment, if not the plain encoder."""

    title: str
    paper: str
    trains: str
    recipe: str
    settings: dict[str, Any] = field(default_factory=dict)
    start: str = ""
    ensemble: bool = False


METHODS = {
    "reversible": Method("reversible adapters", "RevMUX", "adapters", "small/revmux"),
    "low-rank": Method("low-rank updates at k > 1", "ours", "updates, new parts", "small/low-rank"),
    "full": Method(
        "the same parts, all weights trained",
        "ours",
        "everything",
        "small/low-rank",
        {"model.frozen": False, "model.low_rank": 0, "task.learning_rate": 2e-4},
    ),
    "circular": Method("circular convolution", "MIMONets", "everything", "small/mimonets"),
    "ortho": Method(
        "a 1x1 convolution per slot", "MIMONets", "everything", "small/mimonets", {"model.multiplexer": "learned_ortho"}
    ),
    "mux-plm": Method(
        "deep demultiplexer, three stages",
        "MUX-PLM",
        "everything",
        "small/mux-plm",
        {"warmup.steps": 0, "pretrain.steps": 0},
        start=f"successors/{PRETRAINED}",
    ),
    "ensemble": Method("one text in every slot", "MIMO", "everything", "small/mimo", ensemble=True),
}
ENSEMBLE = next(name for name, method in METHODS.items() if method.ensemble)


def _plain_of(task: str) -> str:
    return f"{{{task}/{PLAIN}}}"


def _same_for_all(task: str) -> dict[str, Any]:
    """What methods and rivals have in common."""
    settings = {"task.name": task, "task.steps": STEPS, "model.max_tokens": LONGEST_TEXT[task]}
    rows = {"task.groups": ROWS[task] // max(SIZES), "task.min_rows": ROWS[task]}  # as many whatever the group size
    return settings | rows | {"model.start": _plain_of(task)}


def _about(task: str, what: str) -> dict[str, Any]:
    return {"family": "successors", "task": task, "seeds": SEEDS, "about": what}


def _experiment(task: str, name: str, method: Method, n: int) -> Experiment:
    settings = _same_for_all(task) | {"model.num_instances": n, "task.start_size": "capacity"}
    settings |= {"model.start": f"{{{method.start}-n{n}}}"} if method.start else {}
    measured: dict[str, Any] = {"group_sizes": (1, n)}
    if method.ensemble:
        measured = {"group_sizes": (1,), "groupings": 1, "options": ("--filler", "repeat")}
    about = _about(task, method.title) | {"n": n}
    return Experiment(
        "successors", f"{task}-{name}-n{n}", "train", method.recipe, settings | method.settings, **about, **measured
    )


def _pretrained(n: int) -> Experiment:
    """MUX-PLM's stages before the task, which are the same for every task."""
    settings = {"model.start": "{encoder}", "model.num_instances": n, "task.steps": 0}
    about: dict[str, Any] = {"family": "successors", "n": n, "seeds": SEEDS, "about": "retrieval, then masked words"}
    return Experiment("successors", f"{PRETRAINED}-n{n}", "train", "small/mux-plm", settings, **about)


def _cut(task: str, layers: int) -> Experiment:
    """The simple rival: the first layers of the fine-tuned encoder, with the budget and the teacher of the methods."""
    learned = {"task.teacher": _plain_of(task), "task.distill_logits": 0.7, "task.distill_states": 1.0}
    settings = _same_for_all(task) | learned | {"model.keep_layers": layers}
    about: dict[str, Any] = _about(task, f"the plain encoder, cut to {layers} layers") | {"group_sizes": (1,)}
    return Experiment("successors", f"{task}-cut-{layers}", "train", f"small/minilm-{task}-plain", settings, **about)


def _longer(task: str) -> Experiment:
    """What ensembling is compared with: the plain encoder, trained as much longer and by the same teacher."""
    settings = _same_for_all(task) | {"task.teacher": _plain_of(task), "run.plain": True}
    about: dict[str, Any] = _about(task, "the plain encoder, trained for as long") | {"group_sizes": (1,)}
    return Experiment("successors", f"{task}-plain-longer", "train", METHODS[ENSEMBLE].recipe, settings, **about)


def _plain(task: str) -> Experiment:
    """The plain encoder again, because its first record has no calibration error."""
    about = _about(task, "the plain encoder") | {"seeds": (0,), "group_sizes": (1,)}
    return Experiment("successors", f"{task}-plain", "evaluate", settings={"model": _plain_of(task)}, **about)


SUCCESSORS = (
    *(_plain(task) for task in TASKS),
    *(_cut(task, layers) for task in TASKS for layers in CUT),
    *(_longer(task) for task in TASKS),
    *(_pretrained(n) for n in SIZES),
    *(_experiment(task, name, method, n) for task in TASKS for name, method in METHODS.items() for n in SIZES),
)
