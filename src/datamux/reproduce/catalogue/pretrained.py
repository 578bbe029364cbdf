"""A pretrained encoder: plain fine-tuning, mixed after some of its layers, and the same encoder cut to fewer layers.

All but the first learn from the fine-tuned encoder. "Longer" starts from it and sees the rows as often as the mixed
ones do (on CoNLL-2003 twice as often).
"""

from typing import Any

from datamux.reproduce.experiment import Experiment

LONGER = {"sst2": 5000, "banking77": 3600, "qqp": 3600, "conll2003": 2400}  # steps


def _minilm(task: str, name: str, settings: dict[str, Any], n: int = 1, **more: Any) -> Experiment:
    recipe = f"small/minilm-{task}-{'plain' if n == 1 else 'n10'}"
    return Experiment(task, f"minilm-{name}", "train", recipe, settings, "minilm", n, task=task, **more)


def _teacher(task: str) -> dict[str, Any]:
    return {"task.teacher": f"{{{task}/minilm-plain-6-layers}}"}


def _cut(task: str, layers: int, name: str = "", settings: dict[str, Any] = {}) -> Experiment:  # noqa: B006
    """A plain rival with the first layers only; on CoNLL-2003 its head sees the neighbouring tokens."""
    learned = {"model.start": "{encoder}", **_teacher(task), "task.distill_logits": 0.7, "task.distill_states": 1.0}
    context = {"model.head_context": 2 if task == "conll2003" else 0}
    cut = {"model.keep_layers": layers}
    return _minilm(task, f"plain-{layers}-layers{name}", {**learned, **context, **cut, **settings})


def _longer(task: str, layers: int, name: str = "", settings: dict[str, Any] = {}) -> Experiment:  # noqa: B006
    start = {"model.start": f"{{{task}/minilm-plain-6-layers}}", "task.steps": LONGER[task]}
    return _cut(task, layers, f"-longer{name}", start | settings)


def _mixed(task: str, layer: int, name: str = "", settings: dict[str, Any] = {}, **more: Any) -> Experiment:  # noqa: B006
    start = {"model.start": f"{{{task}/minilm-plain-6-layers}}", "model.mux_layer": layer}
    return _minilm(task, f"n10-mux-layer-{layer}{name}", {**start, **_teacher(task), **settings}, 10, **more)


PRETRAINED = (
    *(
        experiment
        for task in LONGER
        for experiment in (
            _minilm(task, "plain-6-layers", {"model.start": "{encoder}"}),
            *(_cut(task, layers) for layers in (3, 2, 1)),
            _mixed(task, 2),
            _mixed(task, 1, "-of-3", {"model.start": f"{{{task}/minilm-plain-3-layers}}"}),
        )
    ),
    _mixed("sst2", 1),
    *(_mixed(task, 2, "-bypass", {"model.bypass": True}, retired=True) for task in ("sst2", "banking77")),
    *(_longer(task, layers) for task, layers in (("sst2", 3), ("sst2", 2), ("banking77", 2))),
    *(_longer("conll2003", layers) for layers in (3, 2)),
    _longer("banking77", 2, "-lr-2e-4", {"task.learning_rate": 2e-4}),
)
