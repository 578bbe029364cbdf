"""Evaluate a saved model on a task, and say it as a run record."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import torch

from datamux.errors import check_at_least_one, check_choice
from datamux.evaluate.quality import measure_quality, measure_retrieval
from datamux.evaluate.records import make_record
from datamux.evaluate.swapped import swap_instances
from datamux.grouping import Filler
from datamux.hub.loading import label_names, load_model, load_tokenizer
from datamux.inference.exported import is_exported
from datamux.inference.loading import load_runtime
from datamux.inference.runtime import bf16_is_quick
from datamux.inference.texts import max_tokens_of
from datamux.tasks.examples import Examples
from datamux.tasks.files import SUFFIXES, TEXT_SUFFIXES
from datamux.tasks.labels import Labels
from datamux.tasks.rows import Rows, encode_corpus, encode_examples
from datamux.tasks.task import Task, corpus_task, get_task, load_splits, own_task, read_corpus
from datamux.zoo import find_model

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
    bf16: bool | None = None,
    swapped: bool = False,
) -> dict[str, Any]:
    """A run record with one row a group size. `swapped`: with each instance's neighbour's part of the mixture.

    `bf16`: in half precision; None: where the machine has instructions for it.
    """
    bf16 = bf16_is_quick() if bf16 is None else bf16
    name = find_model(name)
    check_choice("filler", filler, get_args(Filler))
    for size in group_sizes:
        check_at_least_one("group_size", size)
    wanted: Filler = "repeat" if filler == "repeat" else "nothing"
    chosen = find_task(task, splits, text, label, token_level)
    recipe = read_json(Path(name) / "recipe.json")
    if chosen.kind == "text":
        if swapped:
            raise ValueError("swapped is for tasks with labels, not for a corpus")
        model = load_model(name).to("cuda" if torch.cuda.is_available() else "cpu")
        config: Any = model.config
        sizes = list(group_sizes) or default_sizes(model.config.num_instances)
        tokens = recipe["warmup"]["tokens"] if recipe else 32
        lines = chain.from_iterable(read_corpus(chosen, split, data_dir) for split in splits)
        words = encode_corpus(lines, load_tokenizer(name), max_words=MAX_WORDS)
        pieces = words[: len(words) // tokens * tokens].view(-1, tokens)
        found = measure_retrieval(model, pieces, group_sizes=sizes, groupings=groupings, filler=wanted, bf16=bf16)
    else:
        bf16 = bf16 and not is_exported(Path(name))  # that has its own precision
        runtime, config, tags = load_runtime(name, bf16=bf16, filler=wanted)
        check_fits(tags, chosen, name)
        if swapped:
            swap_instances(runtime)
        rows, labels = load_rows(name, config, chosen, load_splits(chosen, splits, data_dir))
        sizes = list(group_sizes) or default_sizes(runtime.num_instances)
        if swapped:  # alone in a pass, nobody has a neighbour
            sizes = [k for k in sizes if k > 1]
            if not sizes:
                raise ValueError("swapped needs a group size of 2 at least: alone, nobody has a neighbour")
        found = measure_quality(runtime, rows, labels, group_sizes=sizes, groupings=groupings, filler=wanted)
    return make_record(
        "quality",
        recipe=recipe or None,
        results=[quality.as_dict() for quality in found],
        task=chosen.name,
        splits=list(splits),
        encoder=_encoder(config),
        evaluation={"groupings": groupings, "filler": filler, "bf16": bf16} | ({"swapped": True} if swapped else {}),
        training=read_json(Path(name) / "training.json") or [],
    )


def _encoder(config: Any) -> dict[str, Any]:
    """The encoder as it is: a recipe that starts from a pretrained one does not say its sizes."""
    encoder = getattr(config, "backbone_config", config)
    return {
        "family": encoder.model_type,
        "layers": encoder.num_hidden_layers,
        "hidden": encoder.hidden_size,
        "heads": encoder.num_attention_heads,
        "vocab_size": encoder.vocab_size,
    }


def load_rows(name: str, config: Any, task: Task, examples: Examples) -> tuple[Rows, Labels]:
    """Examples as rows, tokenised for the model `name`, with the labels that it knows."""
    problem: Any = config.problem_type or "single_label_classification"
    labels = Labels(label_names(config), problem, numbered=task.label_names is not None)
    recipe = read_json(Path(name) / "recipe.json")
    tokenizer = load_tokenizer(name)
    max_tokens = recipe["model"]["max_tokens"] if recipe else max_tokens_of(tokenizer, config)
    return encode_examples(examples, labels, tokenizer, max_tokens), labels


def check_fits(tags: bool, task: Task, name: str) -> None:
    if tags != (task.kind == "token"):
        kinds = {True: "tags tokens", False: "classifies texts"}
        raise ValueError(f"{name} {kinds[tags]}, and {task.name} is a task that {kinds[not tags]}")


def default_sizes(capacity: int) -> list[int]:
    return sorted({k for k in (*SIZES, capacity) if k <= capacity})


def find_task(
    task: str | Task,
    splits: Sequence[str],
    text: Sequence[str] = ("text",),
    label: str = "label",
    token_level: bool | None = None,
) -> Task:
    """A known task, a corpus, or a file of the user's own."""
    if isinstance(task, Task):
        return task
    if task.endswith(SUFFIXES):
        return own_task({split: Path(task) for split in splits}, text, label, token_level=token_level)
    if task.endswith(TEXT_SUFFIXES):
        return replace(corpus_task(task), files={split: Path(task) for split in splits})
    return get_task(task)


def read_json(file: Path) -> Any:
    """What is kept beside a model, where it is: its recipe, or how its training went."""
    return json.loads(file.read_text()) if file.exists() else None
