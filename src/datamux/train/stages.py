"""The two stages: retrieval warm-up, then the task. Each takes a recipe and a folder, and goes on where it stopped."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from datamux.evaluate.quality import score
from datamux.evaluate.records import provenance
from datamux.hub.models import MuxPreTrainedModel
from datamux.tasks.rows import Chunks, encode_examples
from datamux.tasks.task import Task, get_task
from datamux.train.build import build, copy_head
from datamux.train.curriculum import Curriculum
from datamux.train.data import cached, corpus_words, find_corpus, find_tokenizer, first_process_first, task_examples
from datamux.train.folder import check_same_run, forget_run, other_run, remember_run
from datamux.train.losses import RetrievalObjective, TaskObjective
from datamux.train.recipe import Recipe, TaskSettings, WarmupSettings
from datamux.train.teachers import check_teacher, load_teacher, order_of, teach, with_teacher
from datamux.train.trainer import MuxTrainer, StopEarly, last_checkpoint, training_arguments
from datamux.train.unlabelled import check_unlabelled, label_by_teacher, with_unlabelled

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
    if not recipe.warmup.steps and not recipe.task.steps:
        raise ValueError("nothing to train: set warmup.steps or task.steps")
    if recipe.model.needs_start and not recipe.model.start:
        raise ValueError("this recipe starts from a trained model: --set model.start=FOLDER_OR_NAME")
    recipe = as_plain(recipe) if recipe.run.plain else recipe
    if task is None and recipe.task.name:
        task = get_task(recipe.task.name)
    if recipe.task.steps and task is None:
        raise ValueError("the recipe has task steps but names no task: set task.name, or give a file of your own")
    check_same_run(recipe, task, folder)
    warmed_up = (folder / "warmup" / "model" / "training.json").exists()
    if recipe.task.steps and task is not None and recipe.warmup.steps and not warmed_up:
        check_task(recipe, task, data_dir)  # what is wrong is said before the warm-up, not after it
    with first_process_first():
        if other_run(recipe, task, folder):
            forget_run(folder)
        remember_run(recipe, task, folder)
        tokenizer = find_tokenizer(recipe, folder, task, data_dir)
    last = recipe.model.start
    if recipe.warmup.steps:
        last = str(warm_up(recipe, folder / "warmup", tokenizer, task, data_dir))
    if recipe.task.steps and task is not None:
        after = replace(recipe, model=replace(recipe.model, start=last))
        last = str(train_task(after, folder / "task", tokenizer, task, data_dir, first=recipe.model.start))
    return Path(last)


def check_task(recipe: Recipe, task: Task, data_dir: str | None) -> None:
    """Read what stage two will train on, and who teaches it."""
    train_examples, held_out, labels = task_examples(task, data_dir, recipe.run.eval_rows)
    for examples in (train_examples, held_out):
        examples.encoded_labels(labels)
    settings = with_teacher(recipe, recipe.model.start, labels, task.kind).task
    if settings.teacher:
        check_teacher(settings.teacher, CLASSIFIERS[task.kind], labels)
    check_unlabelled(settings)
    with_unlabelled(train_examples, settings, task, labels)


def warm_up(
    recipe: Recipe,
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
    task: Task | None = None,
    data_dir: str | None = None,
) -> Path:
    """Stage one: learn to say which word each instance has at each position."""
    final = folder / "model"
    if (final / "training.json").exists():
        return final
    settings = recipe.warmup
    corpus = find_corpus(settings.corpus, task)
    read = partial(corpus_words, corpus, data_dir=data_dir, tokenizer=tokenizer, tokens=settings.tokens)
    with first_process_first():
        words = cached(folder / "corpus.pt", lambda: read("train", max_words=settings.max_words))
    held_out = read("validation", max_words=recipe.run.eval_rows * settings.tokens)
    model = build(recipe.model, "retrieval", vocab_size=len(tokenizer), seed=recipe.run.seed)
    objective = RetrievalObjective(
        kind="one" if settings.objective == "one" else "all",
        candidates=settings.candidates,
        positions=settings.positions,
        teacher=load_teacher(settings.teacher, AutoModel),
        weight=settings.retrieval,
    )
    curriculum = _curriculum(recipe, settings)
    trainer = MuxTrainer(
        model=model,
        args=training_arguments(
            recipe,
            folder,
            steps=settings.steps,
            rows=settings.groups * recipe.model.num_instances,
            learning_rate=settings.learning_rate,
        ),
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
    recipe: Recipe,
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
    task: Task,
    data_dir: str | None = None,
    *,
    first: str = "",
) -> Path:
    """Stage two: the task, in groups that grow, from the warmed-up (or plain, or pretrained) weights.

    A classifier that the run started from (`first`, before any warm-up) is the teacher where none is named. The head,
    which a warm-up has none of, is the teacher's where that is one of ours.
    """
    final = folder / "model"
    if (final / "training.json").exists():
        return final
    train_examples, held_out, labels = task_examples(task, data_dir, recipe.run.eval_rows)
    recipe = with_teacher(recipe, first or recipe.model.start, labels, task.kind)
    settings = recipe.task
    check_unlabelled(settings)
    labelled = len(train_examples)
    train_examples = with_unlabelled(train_examples, settings, task, labels)
    rows = encode_examples(train_examples, labels, tokenizer, recipe.model.max_tokens)
    model = build(recipe.model, HEADS[task.kind], vocab_size=len(tokenizer), labels=labels, seed=recipe.run.seed)
    assert isinstance(model, MuxPreTrainedModel)
    teacher = load_teacher(settings.teacher, CLASSIFIERS[task.kind], labels)
    if teacher is not None:
        copy_head(teacher, model, order_of(teacher.config, labels))
        with first_process_first():
            teach(teacher, model, recipe, rows, train_examples, labels, tokenizer, folder)
        label_by_teacher(rows, labelled, labels)
    objective = TaskObjective(
        alpha=settings.alpha,
        kind="one" if settings.objective == "one" else "all",
        candidates=settings.candidates,
        positions=settings.positions,
        temperature=settings.temperature,
        distill_logits=settings.distill_logits,
        distill_states=settings.distill_states,
    )
    curriculum = _curriculum(recipe, settings, grow_when="below", window=20)
    trainer = MuxTrainer(
        model=model,
        args=training_arguments(
            recipe,
            folder,
            steps=settings.steps,
            rows=max(settings.groups * recipe.model.num_instances, settings.min_rows),
            learning_rate=settings.learning_rate,
            by_length=recipe.run.group_by_length,  # pieces of a corpus are all equally long
            patient=bool(settings.patience),
        ),
        train_dataset=rows,
        eval_dataset=encode_examples(held_out, labels, tokenizer, recipe.model.max_tokens),
        data_collator=_as_is,
        compute_metrics=lambda p: score(p.predictions, p.label_ids, labels),
        curriculum=curriculum,
        objective=objective,
        watch="task_loss",
        groups=settings.groups,
        min_rows=settings.min_rows,
        length_noise=recipe.run.length_noise,
        callbacks=[StopEarly(settings.patience, curriculum)] if settings.patience else None,
    )
    return _run(trainer, recipe, model, objective, tokenizer, folder, final)


def _curriculum(recipe: Recipe, settings: WarmupSettings | TaskSettings, **how: Any) -> Curriculum:
    return Curriculum(
        capacity=recipe.model.num_instances,
        start=settings.start_size,
        growth=settings.growth,
        threshold=settings.threshold,
        elastic=settings.elastic,
        deadline=settings.steps // 2,
        seed=recipe.run.seed,
        **how,
    )


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
        tokenizer.model_max_length = recipe.model.max_tokens  # what this model has seen; longer texts are cut there
        tokenizer.save_pretrained(final)
        (final / "recipe.json").write_text(_as_json(recipe))
        summary = {
            "steps": trainer.state.global_step,
            "seconds": trainer.seconds,
            "bf16": trainer.args.bf16,
            "reached": trainer.curriculum.reached,
            "provenance": provenance(),
            "log": trainer.state.log_history,
        }
        before = Path(recipe.model.start) / "training.json"
        stages = json.loads(before.read_text()) if recipe.model.start and before.exists() else []
        # Written last: a folder that has it is complete.
        (final / "training.json").write_text(json.dumps([*stages, {"stage": folder.name, **summary}]))
    trainer.accelerator.wait_for_everyone()
    return final


def _as_json(recipe: Recipe) -> str:
    return json.dumps(recipe.as_dict(), indent=2, sort_keys=True)


def _as_is(batch: Any) -> Any:
    """Rows and Chunks hand out whole batches already."""
    return batch


def _best_word(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return logits.argmax(-1)


def _retrieval_metrics(prediction: EvalPrediction) -> dict[str, float]:
    return {"retrieval_accuracy": float((prediction.predictions == prediction.label_ids).mean())}
