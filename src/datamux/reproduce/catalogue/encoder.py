"""Models from the encoder in the package: plain, cut to fewer layers, and mixed after some of its layers.

All plain ones of a task start from the encoder, have the same teacher (a fine-tuned MiniLM) and the same texts that it
labels. The mixed ones start from the plain one of four layers, which is their teacher.
"""

from typing import Any

from datamux.reproduce.catalogue.scratch import teacher
from datamux.reproduce.experiment import Experiment

SHAPES: dict[str, dict[str, Any]] = {
    "conll2003": {"model.max_tokens": 96, "model.head_context": 2, "model.dropout": 0.0},
    "sst2": {"model.max_tokens": 64, "model.head_context": 0, "model.dropout": 0.0},
}


def _experiment(task: str, name: str, recipe: str, settings: dict[str, Any], n: int = 1) -> Experiment:
    return Experiment(task, f"encoder-{name}", "train", recipe, SHAPES[task] | settings, "encoder", n, task=task)


def _plain(task: str, layers: int = 0) -> Experiment:
    """The encoder with all of its layers, or with its first ones only."""
    learned = {"task.steps": 3000, "task.learning_rate": 4e-4, "task.unlabelled": f"{{texts/{task}}}"}
    settings = {"model.start": "encoder"} | teacher(f"{{{task}/minilm-plain-6-layers}}", 0.7) | learned
    cut = {"model.keep_layers": layers} if layers else {}
    return _experiment(task, f"plain-{layers}-layers" if layers else "plain", f"small/{task}-plain", settings | cut)


def _mixed(task: str, layer: int, n: int = 10) -> Experiment:
    mixing = {
        "model.start": f"{{{task}/encoder-plain}}",
        "model.num_instances": n,
        "model.mux_layer": layer,
        "task.name": task,
        "task.plain_steps": 0,
        "task.patience": 0,
        "task.steps": 4000,
    }
    return _experiment(task, f"n{n}-mux-layer-{layer}", "small/your-file-encoder", mixing, n)


ENCODER = (
    *(_plain("conll2003", layers) for layers in (0, 2, 1)),
    *(_mixed("conll2003", layer) for layer in (1, 2)),
    *(_plain("sst2", layers) for layers in (0, 2)),
    _mixed("sst2", 2),
)
