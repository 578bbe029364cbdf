"""Small models from scratch with one teacher, a fine-tuned MiniLM, and one set of texts that it labels.

Models of four layers, plain and mixed, start from a warm-up with hidden words; the plain rivals of one layer or none
are new. The mixed tagger learns only from the task's rows: with the other texts it came out worse.

"Consistent" models go on from the mixed one and see every row in two random groupings per step, whose answers are drawn
together. "Longer" is the same without that, as a control.
"""

from typing import Any

from datamux.reproduce.catalogue.scratch import MASKED, shape, teacher
from datamux.reproduce.experiment import Experiment

STEPS = {"sst2": 3000, "conll2003": 3000, "qqp": 2000}
START = {"model.start": MASKED}
MIXED = START | {"model.dropout": 0.0, "task.learning_rate": 1e-3}
TAGGER = START | {"model.dropout": 0.0, "task.learning_rate": 1.5e-3}
NEW = {"model.tokenizer": MASKED}


def _distilled(task: str, name: str, settings: dict[str, Any], n: int = 1) -> Experiment:
    settings = teacher(f"{{{task}/minilm-plain-6-layers}}", 0.7) | settings
    recipe = f"small/{task}-{'plain' if n == 1 else 'n20'}"
    return Experiment(task, f"distilled-{name}", "train", recipe, settings, "distilled", n, task=task)


def _going_on(start: str, consistency: float, steps: int, rate: float, elastic: float) -> dict[str, Any]:
    """Settings of a model that goes on from another one, in groups such as inference makes."""
    return {
        "model.start": start,
        "model.dropout": 0.0,
        "task.alpha": 0.0,
        "task.consistency": consistency,
        "task.steps": steps,
        "task.learning_rate": rate,
        "task.start_size": "capacity",
        "task.elastic": elastic,
        "task.unlabelled": "{texts/sst2}",
        "run.length_noise": 0.2,
    }


def _texts(task: str) -> dict[str, Any]:
    return {"task.unlabelled": f"{{texts/{task}}}", "task.steps": STEPS[task]}


DISTILLED = (
    *(_distilled(task, "plain", _texts(task) | START) for task in STEPS),
    *(_distilled(task, "plain-1l-256h", _texts(task) | NEW | shape(1)) for task in STEPS),
    *(_distilled(task, "plain-1l-64h", _texts(task) | NEW | shape(1, 64)) for task in STEPS),
    *(_distilled(task, "plain-0l-256h", _texts(task) | NEW | shape(0)) for task in STEPS),
    *(_distilled(task, "n20", MIXED | _texts(task), 20) for task in ("sst2", "qqp")),
    _distilled("sst2", "n20-longer", _going_on("{sst2/distilled-n20}", 0.0, 4000, 7e-4, 0.5), 20),
    _distilled("sst2", "n20-consistent", _going_on("{sst2/distilled-n20}", 8.0, 4000, 7e-4, 0.5), 20),
    _distilled("sst2", "n20-consistent-24", _going_on("{sst2/distilled-n20-consistent}", 24.0, 5000, 5e-4, 0.4), 20),
    _distilled("conll2003", "n20", TAGGER | {"task.steps": 6000}, 20),
    _distilled("conll2003", "n20-3000-steps", TAGGER | {"task.steps": 3000}, 20),
    _distilled("conll2003", "n20-unlabelled-3000-steps", TAGGER | _texts("conll2003"), 20),
    _distilled("conll2003", "plain-task-rows", {"model.start": "{retrieval/scratch-n20}", "task.steps": 2500}),
)
