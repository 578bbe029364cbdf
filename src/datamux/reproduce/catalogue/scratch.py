"""Small encoders from scratch: the retrieval warm-ups, then one plain and one or more mixed models per task.

A mixed model starts from a warm-up and learns from the plain model of the same seed. All of them share one tokenizer.
"""

from typing import Any

from datamux.reproduce.experiment import Experiment

TOKENIZER = {"model.tokenizer": "{retrieval/scratch-n40}"}
WIDE = {"model.layers": 2, "model.hidden": 512, "model.heads": 8}
MASKED = "{retrieval/scratch-n20-masked-words}"


def teacher(model: str, weight: float) -> dict[str, Any]:
    return {"task.teacher": model, "task.distill_logits": weight}


def shape(layers: int, hidden: int = 256) -> dict[str, Any]:
    return {"model.layers": layers} | ({"model.hidden": 64, "model.heads": 1} if hidden == 64 else {})


def _warmup(name: str, recipe: str, settings: dict[str, Any], n: int, task: str = "wikipedia_en") -> Experiment:
    return Experiment("retrieval", f"scratch-{name}", "train", recipe, settings, "scratch", n, task=task)


def _plain(task: str, name: str = "", settings: dict[str, Any] = {}, **more: Any) -> Experiment:  # noqa: B006
    settings = ({} if "model.start" in settings else TOKENIZER) | settings
    name, recipe = f"scratch-plain{name}", f"small/{task}-plain"
    return Experiment(task, name, "train", recipe, settings, "scratch", task=task, **more)


def _mixed(task: str, n: int, name: str = "", settings: dict[str, Any] = {}, **more: Any) -> Experiment:  # noqa: B006
    start = {} if "model.needs_start" in settings else {"model.start": f"{{retrieval/scratch-n{n}}}"}
    settings = {**start, **teacher(f"{{{task}/scratch-plain}}", 0.5), **settings}
    name, recipe = f"scratch-n{n}{name}", f"small/{task}-n{40 if n == 40 else 20}"
    return Experiment(task, name, "train", recipe, settings, "scratch", n, task=task, **more)


FROM_NEW_WEIGHTS = {"model.needs_start": False, "model.tokenizer": MASKED}
LINEAR_HEAD = {"model.head_context": 0}
SLOW = {"model.dropout": 0.1, "task.steps": 2500, "task.learning_rate": 5e-4}
LONG = WIDE | TOKENIZER | {"warmup.steps": 3000, "warmup.max_words": 13_000_000}
MORE = {"warmup.steps": 3000, "warmup.start_size": 20, "warmup.learning_rate": 7e-4}
HIDDEN_WORDS = {"model.tokenizer": "{retrieval/scratch-n20}", "warmup.mask_rate": 0.15}
SCRATCH = (
    _warmup("n40", "small/warmup-n40", {}, 40),
    _warmup("n20", "small/warmup-n20", TOKENIZER, 20),
    _warmup("n40-2l-512h", "small/warmup-n40", LONG, 40),
    _warmup(
        "n40-2l-512h-more", "small/warmup-n40", WIDE | {"model.start": "{retrieval/scratch-n40-2l-512h}"} | MORE, 40
    ),
    # Only trained, for other experiments. With one word in seven hidden, attention has to be used.
    _warmup("n20-masked-words", "small/warmup-n20", HIDDEN_WORDS, 20, ""),
    _warmup("n5", "small/warmup-n20", TOKENIZER | {"model.num_instances": 5, "warmup.steps": 1200}, 5, ""),
    _warmup("plain", "small/warmup-plain", TOKENIZER, 1, ""),
    # SST-2
    _plain("sst2", seeds=(0, 1, 2)),
    _plain("sst2", "-1200-steps", {"task.steps": 1200}),
    _plain("sst2", "-lr-1.5e-3", {"task.learning_rate": 1.5e-3}),
    _plain("sst2", "-warmed-up", {"model.start": "{retrieval/scratch-plain}", "task.steps": 1200}),  # the paper's B2
    _plain("sst2", "-2l-512h", WIDE | teacher("{sst2/scratch-plain}", 0.7), seeds=(0, 1, 2)),
    _plain("sst2", "-2l-512h-no-teacher", WIDE),
    _plain("sst2", "-1l-256h-distilled", shape(1) | teacher("{sst2/minilm-plain-6-layers}", 0.7)),
    _plain("sst2", "-1l-64h-distilled", shape(1, 64) | teacher("{sst2/minilm-plain-6-layers}", 0.7)),
    _plain("sst2", "-0l-256h", shape(0) | teacher("{sst2/scratch-plain}", 0.7)),
    _mixed("sst2", 20, seeds=(0, 1, 2)),
    _mixed("sst2", 20, "-bypass", {"model.bypass": True}, retired=True),
    _mixed("sst2", 20, "-one-size", {"task.elastic": 0.0}, group_sizes=(20,)),
    _mixed("sst2", 5, "-one-size", {"model.num_instances": 5, "task.elastic": 0.0}, group_sizes=(5,)),
    _mixed("sst2", 20, "-masked-words", {"model.start": MASKED}),
    _mixed("sst2", 20, "-contextual", FROM_NEW_WEIGHTS | {"model.multiplexer": "contextual"}),
    _mixed("sst2", 40),
    _mixed("sst2", 40, "-no-warmup-2l-512h", FROM_NEW_WEIGHTS | WIDE, seeds=(0, 1, 2)),
    # CoNLL-2003
    _plain("conll2003"),
    _plain("conll2003", "-3000-steps", {"task.steps": 3000}),
    _plain("conll2003", "-linear-head", LINEAR_HEAD),
    _plain("conll2003", "-0l-256h", shape(0) | teacher("{conll2003/scratch-plain}", 0.7)),
    _mixed("conll2003", 20, settings={"task.steps": 1600}),
    _mixed("conll2003", 20, "-bypass", {"task.steps": 1600, "model.bypass": True}, retired=True),
    _mixed("conll2003", 20, "-masked-words", {"model.start": MASKED, "task.steps": 1600}),
    _mixed("conll2003", 20, "-masked-words-3000-steps", {"model.start": MASKED, "task.steps": 3000}),
    _mixed("conll2003", 20, "-linear-head-lr-2e-3", LINEAR_HEAD | {"task.steps": 1600, "task.learning_rate": 2e-3}),
    _mixed("conll2003", 20, "-linear-head-lr-5e-4", LINEAR_HEAD | SLOW),
    *(make(task) for task in ("qqp", "qnli", "mnli") for make in (_plain, lambda task: _mixed(task, 20))),
)
