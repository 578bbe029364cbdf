"""The methods of the papers that followed, and ours, on one fine-tuned encoder with one budget: 600 steps on the task.

All but MUX-PLM start from the fine-tuned encoder, which is their teacher; MUX-PLM starts from the encoder before that,
and has two stages more. Mixed after the second of six layers, except where the method mixes words.
"""

from dataclasses import dataclass
from typing import Any

from datamux.reproduce.experiment import Experiment

TASKS = ("sst2", "banking77", "conll2003")
SIZES = (2, 4, 8)
SEEDS = (0, 1, 2)
PLAIN = "minilm-plain-6-layers"  # what all are compared with
TAGGER = {"task.groups": 6, "task.min_rows": 48}  # every token is demultiplexed, so a step costs more
CUT = ("minilm-plain-3-layers", "minilm-plain-2-layers", "minilm-plain-1-layers")  # the simple rivals


@dataclass(frozen=True)
class Method:
    """One row of the table. `trains` says what is trained."""

    title: str
    paper: str
    trains: str
    recipe: str
    settings: dict[str, Any]
    ensemble: bool = False


METHODS = {
    "reversible": Method("reversible adapters", "RevMUX", "adapters", "small/revmux", {}),
    "low-rank": Method("low-rank updates at k > 1", "ours", "updates, new parts", "small/low-rank", {}),
    "full": Method(
        "the same parts, all weights trained",
        "ours",
        "everything",
        "small/low-rank",
        {"model.frozen": False, "model.low_rank": 0, "task.learning_rate": 2e-4},
    ),
    "circular": Method("circular convolution", "MIMONets", "everything", "small/mimonets", {}),
    "mux-plm": Method(
        "deep demultiplexer, three stages", "MUX-PLM", "everything", "small/mux-plm", {"model.start": "{encoder}"}
    ),
    "ensemble": Method("one text in every slot", "MIMO", "everything", "small/mimo", {}, ensemble=True),
}


def _experiment(task: str, name: str, method: Method, n: int) -> Experiment:
    plain = f"{{{task}/{PLAIN}}}"
    settings = {"task.name": task, "model.num_instances": n, "model.start": plain, "task.teacher": plain}
    settings |= TAGGER if task == "conll2003" else {}
    measured: dict[str, Any] = {"group_sizes": (1, n)}
    if method.ensemble:
        measured = {"group_sizes": (1,), "groupings": 1, "options": ("--filler", "repeat")}
    about: dict[str, Any] = {"family": "successors", "n": n, "task": task, "seeds": SEEDS, "about": method.title}
    return Experiment(
        "successors", f"{task}-{name}-n{n}", "train", method.recipe, settings | method.settings, **about, **measured
    )


def _plain(task: str) -> Experiment:
    """The plain encoder again, because its first record has no calibration error."""
    model = {"model": f"{{{task}/{PLAIN}}}"}
    about: dict[str, Any] = {"family": "successors", "task": task, "group_sizes": (1,), "about": "the plain encoder"}
    return Experiment("successors", f"{task}-plain", "evaluate", settings=model, **about)


SUCCESSORS = (
    *(_plain(task) for task in TASKS),
    *(_experiment(task, name, method, n) for task in TASKS for name, method in METHODS.items() for n in SIZES),
)
