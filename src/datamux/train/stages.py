"""The two stages: retrieval warm-up, then the task. Each takes a recipe and a folder, and goes on where it stopped."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from datamux.evaluate.quality import score
from datamux.hub import MuxConfig
from datamux.hub.models import MuxPreTrainedModel
from datamux.hub.multiplex import load_model
from datamux.tasks.rows import Chunks, Rows, encode_corpus, encode_examples
from datamux.tasks.task import Examples, Task, find_file, find_labels_of, get_task, load_split
from datamux.train.build import build, load_tokenizer, train_tokenizer
from datamux.train.curriculum import Curriculum
from datamux.train.losses import RetrievalObjective, TaskObjective, teacher_answers
from datamux.train.recipe import Recipe
from datamux.train.trainer import MuxTrainer, last_checkpoint, training_arguments

HEADS = {"sequence": "sequence-classification", "token": "token-classification"}
CLASSIFIERS = {"sequence": AutoModelForSequenceClassification, "token": AutoModelForTokenClassification}


def as_plain(recipe: Recipe) -> Recipe:
    """The same recipe for the plain model: one instance a pass, nothing mixed."""
    model = replace(
        recipe.model,
        num_instances=1,
        mux_layer=0,
        multiplexer="identity",
        multiplexer_options={},
        demultiplexer="identity",
        demultiplexer_options={},
    )
    return replace(recipe, model=model)


def train(recipe: Recipe, folder: Path, *, task: Task | None = None, data_dir: str | None = None) -> Path:
    """Run the stages that the recipe asks for; returns the folder of the finished model."""
    recipe = as_plain(recipe) if recipe.run.plain else recipe
    folder.mkdir(parents=True, exist_ok=True)
    _remember(recipe, folder)
    if task is None and recipe.task.name:
        task = get_task(recipe.task.name)
    tokenizer = _tokenizer(recipe, folder, task, data_dir)
    last = recipe.model.start
    if recipe.warmup.steps:
        last = str(warm_up(recipe, folder / "warmup", tokenizer, data_dir))
    if recipe.task.steps:
        if task is None:
            raise ValueError("the recipe has task steps but names no task: set task.name, or give a file of your own")
        after = replace(recipe, model=replace(recipe.model, start=last))
        last = str(train_task(after, folder / "task", tokenizer, task, data_dir))
    if not recipe.warmup.steps and not recipe.task.steps:
        raise ValueError("nothing to train: set warmup.steps or task.steps")
    return Path(last)


def warm_up(recipe: Recipe, folder: Path, tokenizer: PreTrainedTokenizerBase, data_dir: str | None = None) -> Path:
    """Stage one: learn to say which word each instance has at each position."""
    final = folder / "model"
    if (final / "training.json").exists():
        return final
    settings = recipe.warmup
    corpus = get_task(settings.corpus)
    words = _cached(
        folder / "corpus.pt", lambda: encode_corpus(_lines(corpus, "train", data_dir), tokenizer, settings.max_words)
    )
    held_out = encode_corpus(_lines(corpus, "validation", data_dir), tokenizer, recipe.run.eval_rows * settings.tokens)
    model = build(recipe.model, "retrieval", vocab_size=len(tokenizer), seed=recipe.run.seed)
    objective = RetrievalObjective(
        kind="one" if settings.objective == "one" else "all",
        candidates=settings.candidates,
        positions=settings.positions,
        teacher=_frozen(settings.teacher, AutoModel),
    )
    curriculum = Curriculum(
        capacity=recipe.model.num_instances,
        start=settings.start_size,
        growth=settings.growth,
        threshold=settings.threshold,
        elastic=settings.elastic,
        deadline=settings.steps // 2,
        seed=recipe.run.seed,
    )
    trainer = MuxTrainer(
        model=model,
        args=_arguments(recipe, folder, settings.steps, settings.groups, settings.learning_rate),
        train_dataset=Chunks(words, settings.tokens),
        eval_dataset=Chunks(held_out, settings.tokens),
        data_collator=_as_is,
        compute_metrics=_retrieval_metrics,
        preprocess_logits_for_metrics=_best_word,
        curriculum=curriculum,
        objective=objective,
        watch="retrieval_accuracy",
        groups=settings.groups,
        mask=(settings.mask_rate, tokenizer.mask_token_id) if settings.mask_rate else None,
    )
    return _run(trainer, recipe, model, objective, tokenizer, folder, final)


def train_task(
    recipe: Recipe, folder: Path, tokenizer: PreTrainedTokenizerBase, task: Task, data_dir: str | None = None
) -> Path:
    """Stage two: the task, in groups that grow, from the warmed-up (or plain, or pretrained) weights."""
    final = folder / "model"
    if (final / "training.json").exists():
        return final
    settings = recipe.task
    train_examples = load_split(task, "train", data_dir)
    labels = find_labels_of(task, train_examples)
    rows = encode_examples(train_examples, labels, tokenizer, recipe.model.max_tokens)
    held_out = _validation(task, data_dir, recipe.run.eval_rows)
    model = build(recipe.model, HEADS[task.kind], vocab_size=len(tokenizer), labels=labels, seed=recipe.run.seed)
    assert isinstance(model, MuxPreTrainedModel)
    teacher = _frozen(settings.teacher, CLASSIFIERS[task.kind])
    if teacher is not None and settings.distill_logits > 0:
        rows.teacher_logits = _cached(
            folder / "teacher.pt", lambda: teacher_answers(teacher, rows, bf16=recipe.run.bf16)
        )
    objective = TaskObjective(
        alpha=settings.alpha,
        teacher=teacher,
        distill_logits=settings.distill_logits,
        distill_states=settings.distill_states,
    )
    curriculum = Curriculum(
        capacity=recipe.model.num_instances,
        start=settings.start_size,
        growth=settings.growth,
        threshold=settings.threshold,
        grow_when="below",
        window=20,
        elastic=settings.elastic,
        deadline=settings.steps // 2,
        seed=recipe.run.seed,
    )
    evaluation: dict[str, Any] = {}
    if held_out is not None:
        evaluation = {
            "eval_dataset": encode_examples(held_out, labels, tokenizer, recipe.model.max_tokens),
            "compute_metrics": lambda p: score(p.predictions, p.label_ids, labels),
        }
    trainer = MuxTrainer(
        model=model,
        args=_arguments(
            recipe, folder, settings.steps, settings.groups, settings.learning_rate, evaluate=held_out is not None
        ),
        train_dataset=rows,
        data_collator=_as_is,
        curriculum=curriculum,
        objective=objective,
        watch="task_loss",
        groups=settings.groups,
        min_rows=settings.min_rows,
        callbacks=[EarlyStoppingCallback(settings.patience)] if settings.patience and held_out is not None else None,
        **evaluation,
    )
    return _run(trainer, recipe, model, objective, tokenizer, folder, final)


def _run(
    trainer: MuxTrainer,
    recipe: Recipe,
    model: PreTrainedModel,
    objective: RetrievalObjective | TaskObjective,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    final: Path,
) -> Path:
    model.objective = objective
    checkpoint = last_checkpoint(folder)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    model.objective = None
    if trainer.is_world_process_zero():
        model.save_pretrained(final)
        tokenizer.save_pretrained(final)
        (final / "recipe.json").write_text(_as_json(recipe))
        summary = {
            "steps": trainer.state.global_step,
            "seconds": trainer.seconds,
            "reached": trainer.curriculum.reached,
            "log": trainer.state.log_history,
        }
        before = Path(recipe.model.start or ".") / "training.json"
        stages = json.loads(before.read_text()) if before.exists() else {}
        # Written last: a folder that has it is complete.
        (final / "training.json").write_text(json.dumps(stages | {folder.name: summary}))
    trainer.accelerator.wait_for_everyone()
    return final


def _arguments(recipe: Recipe, folder: Path, steps: int, groups: int, rate: float, *, evaluate: bool = True) -> Any:
    rows = max(groups * recipe.model.num_instances, recipe.task.min_rows)
    run = recipe.run
    patient = bool(recipe.task.patience and evaluate)
    return training_arguments(
        folder,
        max_steps=steps,
        per_device_train_batch_size=rows,
        per_device_eval_batch_size=max(1, 128 // recipe.model.num_instances) * recipe.model.num_instances,
        learning_rate=rate,
        warmup_steps=min(run.warmup_steps, steps // 10),
        weight_decay=run.weight_decay,
        bf16=run.bf16,
        seed=run.seed,
        logging_steps=min(50, max(1, steps // 10)),
        eval_strategy="steps" if evaluate else "no",
        eval_steps=min(run.eval_steps, steps),
        save_steps=min(run.save_steps, steps),
        load_best_model_at_end=patient,
        metric_for_best_model="score" if patient else None,
        report_to=_reporters(),
    )


def _reporters() -> list[str]:
    from importlib.util import find_spec

    return ["tensorboard"] if find_spec("tensorboard") else []


def _tokenizer(recipe: Recipe, folder: Path, task: Task | None, data_dir: str | None) -> PreTrainedTokenizerBase:
    """The start model's, or one learned from the corpus and the task's texts."""
    if recipe.model.tokenizer or recipe.model.start:
        return load_tokenizer(recipe.model.tokenizer or recipe.model.start)
    place = folder / "tokenizer"
    if not (place / "tokenizer.json").exists():

        def lines() -> Any:
            if recipe.warmup.steps:
                yield from _lines(get_task(recipe.warmup.corpus), "train", data_dir, every=4)
            if task is not None:
                examples = load_split(task, "train", data_dir)
                yield from (" ".join(t) if isinstance(t, list) else t for t in examples.texts)
                yield from examples.pairs or ()

        train_tokenizer(lines(), recipe.model.vocab_size, lowercase=recipe.model.lowercase).save_pretrained(place)
    return load_tokenizer(place)


def _lines(corpus: Task, split: str, data_dir: str | None, every: int = 1) -> Any:
    """The lines of a corpus, read as they are needed where there is a file."""
    from itertools import islice

    from datamux.tasks.files import read_lines

    file = find_file(corpus, split, data_dir)
    lines = read_lines(file) if file is not None else iter(load_split(corpus, split, data_dir).texts)
    return islice(lines, 0, None, every)


def _validation(task: Task, data_dir: str | None, rows: int) -> Examples | None:
    try:
        found = load_split(task, "validation", data_dir)
    except FileNotFoundError:
        return None
    return Examples(found.texts[:rows], found.pairs and found.pairs[:rows], found.labels and found.labels[:rows])


def _frozen(name: str, auto: Any) -> PreTrainedModel | None:
    """A teacher: one of our own models, or whatever `auto` makes of the name."""
    if not name:
        return None
    ours = isinstance(AutoConfig.from_pretrained(name), MuxConfig)
    teacher: PreTrainedModel = load_model(name) if ours else auto.from_pretrained(name, dtype=torch.float32)
    return teacher.eval().requires_grad_(False)


def _remember(recipe: Recipe, folder: Path) -> None:
    """Keep the resolved recipe in the folder; a folder of another recipe is not overwritten."""
    file = folder / "recipe.json"
    text = _as_json(recipe)
    if file.exists() and file.read_text() != text:
        raise ValueError(f"{folder} holds a run of another recipe (see {file}); choose another folder or remove it")
    file.write_text(text)


def _as_json(recipe: Recipe) -> str:
    return json.dumps(recipe.as_dict(), indent=2, sort_keys=True)


def _cached(file: Path, make: Any) -> torch.Tensor:
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save(make(), file.with_suffix(".part"))
        file.with_suffix(".part").rename(file)
    cached: torch.Tensor = torch.load(file)
    return cached


def _as_is(batch: Any) -> Any:
    """Rows and Chunks hand out whole batches already."""
    return batch


def _best_word(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return logits.argmax(-1)


def _retrieval_metrics(prediction: EvalPrediction) -> dict[str, float]:
    return {"retrieval_accuracy": float((prediction.predictions == prediction.label_ids).mean())}


__all__ = ["Rows", "as_plain", "train", "train_task", "warm_up"]
