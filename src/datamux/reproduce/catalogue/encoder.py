"""A tagger from the encoder in the package: plain, cut to fewer layers, and mixed after some of its layers.

All plain ones start from the encoder, have the same teacher (a fine-tuned MiniLM) and the same texts that it labels.
The mixed ones start from the plain one of four layers, which is their teacher.
"""

from typing import Any

from datamux.reproduce.catalogue.scratch import teacher
from datamux.reproduce.experiment import Experiment

TASK = "conll2003"
PLAIN = "{conll2003/encoder-plain}"
MINILM = teacher("{conll2003/minilm-plain-6-layers}", 0.7)
SHAPE = {"model.max_tokens": 96, "model.head_context": 2, "model.dropout": 0.0}


def _experiment(name: str, recipe: str, settings: dict[str, Any], n: int = 1) -> Experiment:
    return Experiment(TASK, f"encoder-{name}", "train", recipe, SHAPE | settings, "encoder", n, task=TASK)


def _plain(name: str, settings: dict[str, Any]) -> Experiment:
    learned = {"task.steps": 3000, "task.learning_rate": 4e-4, "task.unlabelled": "{texts/conll2003}"}
    start = {"model.start": "encoder"}
    return _experiment(name, "small/conll2003-plain", start | MINILM | learned | settings)


def _mixed(layer: int, n: int = 10, name: str = "", settings: dict[str, Any] = {}) -> Experiment:  # noqa: B006
    mixing = {
        "model.start": PLAIN,
        "model.num_instances": n,
        "model.mux_layer": layer,
        "task.name": TASK,
        "task.plain_steps": 0,
        "task.patience": 0,
        "task.steps": 4000,
    }
    return _experiment(f"n{n}-mux-layer-{layer}{name}", "small/your-file-encoder", mixing | settings, n)


ENCODER = (
    _plain("plain", {}),
    *(_plain(f"plain-{layers}-layers", {"model.keep_layers": layers}) for layers in (2, 1)),
    *(_mixed(layer) for layer in (1, 2)),
)
