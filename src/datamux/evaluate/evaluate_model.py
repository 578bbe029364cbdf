"""`datamux evaluate`: score a saved model on a task at every group size, as a run record."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import torch

from datamux.errors import check_at_least_one, check_choice
from datamux.evaluate.neighbour_control import answered_from_neighbour
from datamux.evaluate.quality import measure_quality, measure_retrieval
from datamux.evaluate.records import make_record
from datamux.grouping import Filler
from datamux.hub.encoders import encoder_sizes
from datamux.hub.loading import label_names, load_model, load_tokenizer
from datamux.inference.exported import is_exported
from datamux.inference.loading import load_runtime
from datamux.inference.texts import max_tokens_of
from datamux.tasks.examples import Examples
from datamux.tasks.files import TEXT_SUFFIXES, table_suffixes
from datamux.tasks.labels import Labels
from datamux.tasks.rows import Rows, encode_corpus, encode_examples
from datamux.tasks.task import Task, corpus_task, get_task, load_splits, read_corpus, task_from_files
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
    filler: str | None = None,
    data_dir: str | None = None,
    text: Sequence[str] = ("text",),
    label: str = "label",
    token_level: bool | None = None,
    bf16: bool = False,
    answer_from_neighbour: bool = False,
) -> dict[str, Any]:
    """A run record with one row per group size.

    Without a `filler`, unused slots hold what the model says. `bf16` runs in half precision. `answer_from_neighbour`
    is a control: each row is answered from its neighbour's part of the mixture.
    """
    name = find_model(name)
    if filler is not None:
        check_choice("filler", filler, get_args(Filler))
    for size in group_sizes:
        check_at_least_one("group_size", size)
    wanted: Any = filler
    chosen = find_task(task, splits, text, label, token_level)
    recipe = read_json(Path(name) / "recipe.json")
    if chosen.kind == "text":
        if answer_from_neighbour:
            raise ValueError("--answer-from-neighbour is for tasks with labels, not for a corpus: leave it out")
        model = load_model(name).to("cuda" if torch.cuda.is_available() else "cpu")
        config: Any = model.config
        used: Filler = wanted or model.filler
        sizes = list(group_sizes) or default_sizes(model.config.num_instances)
        tokens = recipe["warmup"]["tokens"] if recipe else getattr(config, "padded_length", None) or 32
        lines = chain.from_iterable(read_corpus(chosen, split, data_dir) for split in splits)
        words = encode_corpus(lines, load_tokenizer(name), max_words=MAX_WORDS)
        pieces = words[: len(words) // tokens * tokens].view(-1, tokens)
        found = measure_retrieval(model, pieces, group_sizes=sizes, groupings=groupings, filler=used, bf16=bf16)
    else:
        bf16 = bf16 and not is_exported(Path(name))  # an exported model keeps its own precision
        runtime, config, tags = load_runtime(name, bf16=bf16, filler=wanted)
        used = runtime.filler
        check_fits(tags, chosen, name)
        rows, labels = load_rows(name, config, chosen, load_splits(chosen, splits, data_dir))
        sizes = list(group_sizes) or default_sizes(runtime.num_instances)
        if answer_from_neighbour:  # in a group of one, a row has no neighbour
            sizes = [k for k in sizes if k > 1]
            if not sizes:
                raise ValueError("--answer-from-neighbour needs a group size of 2 or more: choose one with -k")
        with answered_from_neighbour(runtime) if answer_from_neighbour else nullcontext():
            found = measure_quality(runtime, rows, labels, group_sizes=sizes, groupings=groupings, filler=used)
    encoder = getattr(config, "backbone_config", config)
    return make_record(
        "quality",
        recipe=recipe or None,
        results=[asdict(quality) for quality in found],
        task=chosen.name,
        splits=list(splits),
        encoder={"family": encoder.model_type, **encoder_sizes(encoder)},
        evaluation={"groupings": groupings, "filler": used, "bf16": bf16}
        | ({"answer_from_neighbour": True} if answer_from_neighbour else {}),
        training=read_json(Path(name) / "training.json") or [],
    )


def load_rows(name: str, config: Any, task: Task, examples: Examples) -> tuple[Rows, Labels]:
    """Examples as rows, tokenised for the model `name`, with the labels that it knows."""
    problem: Any = config.problem_type or "single_label_classification"
    labels = Labels(label_names(config), problem, numbered=task.label_names is not None)
    recipe = read_json(Path(name) / "recipe.json")
    tokenizer = load_tokenizer(name)
    as_trained = recipe and not recipe["model"].get("frozen")  # a frozen classifier reads longer texts than its recipe
    max_tokens = recipe["model"]["max_tokens"] if as_trained else max_tokens_of(tokenizer, config)
    return encode_examples(examples, labels, tokenizer, max_tokens), labels


def check_fits(tags: bool, task: Task, name: str) -> None:
    if tags != (task.kind == "token"):
        kinds = {True: "tags tokens", False: "classifies texts"}
        raise ValueError(f"{name} {kinds[tags]}, but the task {task.name} {kinds[not tags]}: choose another task")


def default_sizes(capacity: int) -> list[int]:
    return sorted({k for k in (*SIZES, capacity) if k <= capacity})


def find_task(
    task: str | Task,
    splits: Sequence[str],
    text: Sequence[str] = ("text",),
    label: str = "label",
    token_level: bool | None = None,
) -> Task:
    """A known task, a corpus, or a file of yours."""
    if isinstance(task, Task):
        return task
    if task.endswith(table_suffixes()):
        return task_from_files({split: Path(task) for split in splits}, text, label, token_level=token_level)
    if task.endswith(TEXT_SUFFIXES):
        return replace(corpus_task(task), files={split: Path(task) for split in splits})
    return get_task(task)


def read_json(file: Path) -> Any:
    """A file that is kept beside a model, such as its recipe, or None if it is missing."""
    return json.loads(file.read_text()) if file.exists() else None
