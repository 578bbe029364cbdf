"""Evaluate a saved model on a task, and say it as a run record."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import torch
from transformers import AutoTokenizer

from datamux.errors import check_choice
from datamux.evaluate.quality import measure_quality, measure_retrieval
from datamux.evaluate.records import make_record
from datamux.grouping import Filler
from datamux.hub import MuxForSequenceClassification, MuxForTokenClassification
from datamux.hub.models import MuxPreTrainedModel
from datamux.hub.multiplex import load_model
from datamux.tasks.files import SUFFIXES, TEXT_SUFFIXES
from datamux.tasks.labels import Labels
from datamux.tasks.rows import encode_corpus, encode_examples
from datamux.tasks.task import Examples, Task, corpus_task, get_task, load_split, own_task, read_corpus

SIZES = (1, 2, 5, 10, 20, 40)
MAX_WORDS = 64_000  # of a corpus: enough for a standard error of 0.1 points at 95%


def evaluate_model(
    name: str,
    task: str | Task,
    *,
    splits: Sequence[str] = ("validation",),
    group_sizes: Sequence[int] = (),
    groupings: int = 3,
    filler: str = "nothing",
    data_dir: str | None = None,
    text: Sequence[str] = ("text",),
    label: str = "label",
    token_level: bool | None = None,
    bf16: bool = True,
) -> dict[str, Any]:
    """A run record with one row a group size."""
    check_choice("filler", filler, get_args(Filler))
    chosen = _task(task, splits, text, label, token_level)
    model = load_model(name).to("cuda" if torch.cuda.is_available() else "cpu")
    _check_fits(model, chosen, name)
    tokenizer = AutoTokenizer.from_pretrained(name)
    recipe = _json(Path(name) / "recipe.json")
    options: dict[str, Any] = {
        "group_sizes": list(group_sizes) or default_sizes(model.config.num_instances),
        "groupings": groupings,
        "filler": filler,
        "bf16": bf16,
    }
    if chosen.kind == "text":
        tokens = recipe["warmup"]["tokens"] if recipe else 32
        lines = chain.from_iterable(read_corpus(chosen, split, data_dir) for split in splits)
        words = encode_corpus(lines, tokenizer, max_words=MAX_WORDS)
        found = measure_retrieval(model, words[: len(words) // tokens * tokens].view(-1, tokens), **options)
    else:
        examples = _joined([load_split(chosen, split, data_dir) for split in splits])
        labels = Labels(
            tuple(model.config.id2label.values()),
            model.config.problem_type or "single_label_classification",
            numbered=chosen.label_names is not None,
        )
        rows = encode_examples(examples, labels, tokenizer, recipe["model"]["max_tokens"] if recipe else 128)
        found = measure_quality(model, rows, labels, **options)
    return make_record(
        "quality",
        recipe=recipe or None,
        results=[quality.as_dict() for quality in found],
        task=chosen.name,
        splits=list(splits),
        evaluation={"groupings": groupings, "filler": filler, "bf16": bf16},
        training=_json(Path(name) / "training.json") or [],
        parameters=sum(p.numel() for p in model.parameters()),
    )


def _check_fits(model: MuxPreTrainedModel, task: Task, name: str) -> None:
    fitting = {"sequence": MuxForSequenceClassification, "token": MuxForTokenClassification}.get(task.kind)
    if fitting is not None and not isinstance(model, fitting):
        raise ValueError(f"{name} is a {type(model).__name__}; {task.name} needs a {fitting.__name__}")


def default_sizes(capacity: int) -> list[int]:
    return sorted({k for k in (*SIZES, capacity) if k <= capacity})


def _task(task: str | Task, splits: Sequence[str], text: Sequence[str], label: str, token_level: bool | None) -> Task:
    if isinstance(task, Task):
        return task
    if task.endswith(SUFFIXES):
        return own_task({split: Path(task) for split in splits}, text, label, token_level=token_level)
    if task.endswith(TEXT_SUFFIXES):
        return replace(corpus_task(task), files={split: Path(task) for split in splits})
    return get_task(task)


def _joined(parts: Sequence[Examples]) -> Examples:
    first = parts[0]
    return replace(
        first,
        texts=[text for part in parts for text in part.texts],
        pairs=None if first.pairs is None else [pair for part in parts for pair in part.pairs or ()],
        labels=None if first.labels is None else [label for part in parts for label in part.labels or ()],
    )


def _json(file: Path) -> Any:
    """What is kept beside a model, where it is: its recipe, or how its training went."""
    return json.loads(file.read_text()) if file.exists() else None
