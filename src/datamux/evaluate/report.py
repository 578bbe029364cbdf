"""Evaluate a saved model on a task, and say it as a run record."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from transformers import AutoTokenizer

from datamux.errors import check_choice
from datamux.evaluate.quality import measure_quality, retrieval_accuracy
from datamux.evaluate.records import make_record
from datamux.grouping import Filler
from datamux.hub.multiplex import load_model
from datamux.tasks.files import SUFFIXES, read_lines
from datamux.tasks.labels import Labels
from datamux.tasks.rows import encode_corpus, encode_examples
from datamux.tasks.task import Examples, Task, find_file, get_task, load_split, own_task

SIZES = (1, 2, 5, 10, 20, 40)


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
    bf16: bool = True,
) -> dict[str, Any]:
    """A run record with one row a group size."""
    check_choice("filler", filler, get_args(Filler))
    model = load_model(name)
    tokenizer = AutoTokenizer.from_pretrained(name)
    sizes = list(group_sizes) or default_sizes(model.config.num_instances)
    chosen = _task(task, splits, text, label)
    max_tokens = _recipe(name).get("model", {}).get("max_tokens", 128)
    if chosen.kind == "text":
        file = find_file(chosen, splits[0], data_dir)
        lines = read_lines(file) if file else iter(load_split(chosen, splits[0], data_dir).texts)
        words = encode_corpus(lines, tokenizer, 64_000)
        pieces = words[: len(words) // 32 * 32].view(-1, 32)
        results = [
            {
                "group_size": k,
                "filler": "nothing",
                "metric": "retrieval accuracy",
                "score": retrieval_accuracy(model, pieces, k, bf16=bf16),
                "spread": 0.0,
                "groupings": 1,
                "rows": len(pieces),
                "slots": [],
            }
            for k in sizes
        ]
    else:
        examples = _joined([load_split(chosen, split, data_dir) for split in splits])
        labels = Labels(
            tuple(model.config.id2label.values()), model.config.problem_type or "single_label_classification"
        )
        rows = encode_examples(examples, labels, tokenizer, max_tokens)
        found = measure_quality(
            model,
            rows,
            labels,
            group_sizes=sizes,
            groupings=groupings,
            filler="repeat" if filler == "repeat" else "nothing",
            bf16=bf16,
        )
        results = [quality.as_dict() for quality in found]
    return make_record(
        "quality",
        recipe=_recipe(name) or None,
        results=results,
        task=chosen.name,
        splits=list(splits),
        training=_training(name),
        parameters=sum(p.numel() for p in model.parameters()),
    )


def default_sizes(capacity: int) -> list[int]:
    return sorted({k for k in (*SIZES, capacity) if k <= capacity})


def _task(task: str | Task, splits: Sequence[str], text: Sequence[str], label: str) -> Task:
    if isinstance(task, Task):
        return task
    if task.endswith(SUFFIXES):
        return own_task({split: Path(task) for split in splits}, text, label)
    return get_task(task)


def _joined(parts: Sequence[Examples]) -> Examples:
    first = parts[0]
    return Examples(
        [text for part in parts for text in part.texts],
        None if first.pairs is None else [pair for part in parts for pair in part.pairs or ()],
        None if first.labels is None else [label for part in parts for label in part.labels or ()],
    )


def _recipe(name: str) -> dict[str, Any]:
    """The resolved recipe that a model was trained with, where it is kept beside it."""
    return _json(Path(name) / "recipe.json")


def _training(name: str) -> dict[str, Any]:
    """Steps, seconds and curriculum of each stage."""
    return _json(Path(name) / "training.json")


def _json(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found
