"""What makes each stage work: short runs that differ from the first in the one thing they are named after."""

from typing import Any

from datamux.reproduce.catalogue.scratch import MASKED, teacher
from datamux.reproduce.experiment import Experiment

WARMUP = {
    "model.tokenizer": "{retrieval/scratch-n20}",
    "model.num_instances": 10,
    "model.demultiplexer_options": {"hidden_dim": 512},
    "model.multiplexer": "gaussian_hadamard",
    **{"warmup.steps": 400, "warmup.groups": 24, "warmup.threshold": 0.85},
    **{"run.eval_steps": 400, "run.save_steps": 400},
}
TASK = {
    "model.start": "{retrieval/scratch-n20}",
    **teacher("{sst2/scratch-plain}", 0.5),
    **{"task.steps": 600, "run.eval_steps": 600, "run.save_steps": 600},
}
NEW = {"model.start": "", "model.needs_start": False, "model.tokenizer": "{retrieval/scratch-n20}"}
CHANGED_IN_WARMUP: dict[str, dict[str, Any]] = {
    "gate": {},
    "key": {"model.demultiplexer": "key"},
    "index": {"model.demultiplexer": "index"},
    "mlp": {"model.demultiplexer": "mlp", "model.demultiplexer_options": {"hidden_dim": 256}},
    "dropout-0.1": {"model.dropout": 0.1},
    "mean-scale": {"model.multiplexer_options": {"scale": "mean"}},
    "sign-keys": {"model.multiplexer": "sign"},
    "no-curriculum": {"warmup.start_size": 10},
    "one-instance-per-position": {"warmup.objective": "one"},
}
CHANGED_IN_TASK: dict[str, dict[str, Any]] = {
    "as-is": {},
    "first-token": {"model.pooling": "first"},
    "no-teacher": {"task.teacher": "", "task.distill_logits": 0.0},
    "no-warmup": NEW,
    "no-curriculum": {"task.start_size": 20},
    "one-size": {"task.elastic": 0.0},
    "no-retrieval": {"task.alpha": 0.0},
    "bypass": {"model.bypass": True},
    "contextual-no-warmup": {"model.multiplexer": "contextual", **NEW},
    "masked-words": {"model.start": MASKED},
}


def _warmup(name: str, changed: dict[str, Any]) -> Experiment:
    shared: dict[str, Any] = {"family": "ablation", "n": 10, "task": "wikipedia_en", "group_sizes": (1, 5, 10)}
    return Experiment("warmup-ablation", name, "train", "small/warmup-n20", WARMUP | changed, **shared)


def _task(name: str, changed: dict[str, Any]) -> Experiment:
    shared: dict[str, Any] = {"family": "ablation", "n": 20, "task": "sst2", "group_sizes": (1, 20), "groupings": 1}
    retired = name == "bypass"
    return Experiment("task-ablation", name, "train", "small/sst2-n20", TASK | changed, retired=retired, **shared)


ABLATIONS = (
    *(_warmup(name, changed) for name, changed in CHANGED_IN_WARMUP.items()),
    *(_task(name, changed) for name, changed in CHANGED_IN_TASK.items()),
)
