"""The stages: retrieval warm-up, masked words in mixtures, then the task; a recipe may leave out any of them.

Each continues where an interrupted run stopped in its folder.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from datamux.evaluate.quality import score
from datamux.evaluate.records import provenance
from datamux.hub.loading import auto_classifier
from datamux.hub.models import MuxPreTrainedModel
from datamux.tasks.labels import Labels
from datamux.tasks.rows import IGNORED, Chunks, Rows, encode_examples
from datamux.tasks.task import Task, get_task
from datamux.train.build import build, check_layers, copy_head, has_own_head
from datamux.train.curriculum import Curriculum
from datamux.train.data import (
    cache_folder,
    cached,
    corpus_lines,
    corpus_words,
    find_corpora,
    find_tokenizer,
    first_process_first,
    task_examples,
)
from datamux.train.folder import check_same_run, forget_run, other_run, remember_run
from datamux.train.losses import RetrievalObjective, TaskObjective, class_weights
from datamux.train.recipe import Recipe, TaskSettings, WarmupSettings, first_group_size
from datamux.train.sentences import copy_word_vectors, first_pieces, sentences_with_teacher, split_sentences
from datamux.train.teachers import check_label_order, check_teacher, load_teacher, order_of, teach, with_teacher
from datamux.train.trainer import MuxTrainer, Progress, StopEarly, last_checkpoint, training_arguments
from datamux.train.unlabelled import check_unlabelled, label_by_teacher, with_unlabelled
from datamux.zoo import find_model

PLAIN_ROWS = 64  # in a step of fine-tuning without mixing
HEADS = {"sequence": "sequence-classification", "token": "token-classification"}
CLASSIFIERS = {"sequence": auto_classifier(tags=False), "token": auto_classifier(tags=True)}


def as_plain(recipe: Recipe) -> Recipe:
    """The same recipe for the plain model, which answers one instance per pass and mixes nothing."""
    model = replace(
        recipe.model,
        num_instances=1,
        mux_layer=0,
        frozen=False,
        low_rank=0,
        multiplexer="identity",
        multiplexer_options={},
        demultiplexer="identity",
        demultiplexer_options={},
    )
    return replace(recipe, model=model)


def _plain_first(recipe: Recipe) -> Recipe:
    """The recipe that fine-tunes the start model without mixing."""
    task = replace(
        recipe.task,
        steps=recipe.task.plain_steps,
        learning_rate=recipe.task.plain_learning_rate,
        groups=PLAIN_ROWS,
        min_rows=PLAIN_ROWS,
        alpha=0.0,
        consistency=0.0,
        distill_logits=0.0,
        distill_states=0.0,
        extra_losses={},
        repetition=0.0,
        start_size="auto",
        plain_steps=0,
        plain_start="",
    )
    model = replace(recipe.model, start=recipe.task.plain_start or recipe.model.start)
    stages: dict[str, Any] = {"warmup": WarmupSettings(), "pretrain": WarmupSettings()}
    return replace(recipe, model=model, task=task, **stages, run=replace(recipe.run, plain=True))


def train(
    recipe: Recipe,
    folder: Path,
    *,
    task: Task | None = None,
    data_dir: str | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Path:
    """Run the stages that the recipe asks for, and return the folder of the finished model.

    The training on the task calls `progress` after evaluations: with its steps so far, and the seconds that are left.
    """
    before = {name: getattr(recipe, name) for name in ("warmup", "pretrain") if getattr(recipe, name).steps}
    if not before and not recipe.task.steps:
        raise ValueError("nothing to train: set warmup.steps, pretrain.steps or task.steps")
    if recipe.model.needs_start and not recipe.model.start:
        raise ValueError("this recipe starts from a trained model: --set model.start=FOLDER_OR_NAME")
    recipe = as_plain(recipe) if recipe.run.plain else recipe
    if recipe.model.frozen:
        check_frozen(recipe)
    if task is None and recipe.task.name:
        task = get_task(recipe.task.name)
    if recipe.task.steps and task is None:
        raise ValueError("the recipe has task steps but names no task: set task.name, or give a file of your own")
    check_same_run(recipe, task, folder)
    check_layers(recipe.model)  # before a plain model is trained, which is not cut
    warmed_up = all((folder / name / "model" / "training.json").exists() for name in before)
    if recipe.task.steps and task is not None and not warmed_up:
        check_task(recipe, task, data_dir)  # report mistakes before the long warm-up, not after it
    with first_process_first():
        if other_run(recipe, task, folder):
            forget_run(folder)
        remember_run(recipe, task, folder)
        tokenizer = find_tokenizer(recipe, folder, task, data_dir)
    if recipe.task.plain_steps and task is not None and recipe.model.num_instances > 1:
        plain = str(train(_plain_first(recipe), folder / "plain", task=task, data_dir=data_dir))
        if recipe.task.plain_start:
            recipe = replace(recipe, task=replace(recipe.task, teacher=plain))
        else:
            recipe = replace(recipe, model=replace(recipe.model, start=plain))
    last = recipe.model.start
    for name, settings in before.items():
        stage = replace(recipe, warmup=settings, model=replace(recipe.model, start=last))
        last = str(warm_up(stage, folder / name, tokenizer, task, data_dir))
    if recipe.task.steps and task is not None:
        after = replace(recipe, model=replace(recipe.model, start=last))
        first = recipe.model.start
        last = str(train_task(after, folder / "task", tokenizer, task, data_dir, first=first, progress=progress))
    return Path(last)


def check_frozen(recipe: Recipe) -> None:
    """Raise if a recipe would train a start model that it says to keep as it is."""
    if not recipe.model.start:
        raise ValueError("model.frozen keeps a plain classifier as it is: name it with --start FOLDER_OR_NAME")
    if recipe.warmup.steps or recipe.pretrain.steps or recipe.task.alpha:
        raise ValueError(
            "model.frozen leaves out retrieval, which the start model was not trained for: "
            "set warmup.steps=0, pretrain.steps=0 and task.alpha=0"
        )
    if recipe.task.start_size == 1:
        raise ValueError("task.start_size must be at least 2 with model.frozen: single texts are answered as before")


def check_task(recipe: Recipe, task: Task, data_dir: str | None) -> None:
    """Read the rows and the teacher of stage two, to find mistakes early."""
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
    """Learn to tell which word each instance has at each position, and with a mask rate, which ones are hidden."""
    final = folder / "model"
    if (final / "training.json").exists():
        return final
    settings = recipe.warmup
    corpora = find_corpora(settings.corpus, task)
    read = partial(corpus_words, corpora, data_dir=data_dir, tokenizer=tokenizer, tokens=settings.tokens)
    with first_process_first():
        if settings.teacher:
            rows: Rows | Chunks = _taught(recipe, corpora, tokenizer, data_dir)
        else:
            words = cached(folder / "corpus.pt", lambda: read("train", max_words=settings.max_words))
            rows = Chunks(words, settings.tokens)
    held_out = read("validation", max_words=recipe.run.eval_rows * settings.tokens)
    model = build(recipe.model, "retrieval", vocab_size=len(tokenizer), seed=recipe.run.seed)
    source = recipe.model.word_vectors or settings.teacher
    if source and not recipe.model.start:
        copy_word_vectors(model, tokenizer, find_model(source))
    objective = RetrievalObjective(
        kind="one" if settings.objective == "one" else "all",
        candidates=settings.candidates,
        positions=settings.positions,
        weight=settings.retrieval,
        match_words=settings.match_words,
        match_sentences=settings.match_sentences,
        consistency=settings.consistency,
    )
    curriculum = _curriculum(recipe, settings)
    trainer = MuxTrainer(
        model=model,
        args=training_arguments(recipe, settings, folder),
        train_dataset=rows,
        eval_dataset=Chunks(held_out, settings.tokens),
        data_collator=_as_is,
        compute_metrics=lambda p: {"retrieval_accuracy": float((p.predictions == p.label_ids).mean())},
        preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1),  # the best word
        curriculum=curriculum,
        objective=objective,
        watch="retrieval_accuracy",
        groups=settings.groups,
        length_noise=recipe.run.length_noise,
        mask=(settings.mask_rate, tokenizer.mask_token_id) if settings.mask_rate else None,
    )
    return _run(trainer, recipe, tokenizer, folder)


def _taught(recipe: Recipe, corpora: Sequence[Task], tokenizer: PreTrainedTokenizerBase, data_dir: str | None) -> Rows:
    """The sentences of the corpora, an equal share of each as far as it goes, with what the teacher says of them."""
    share = recipe.warmup.max_words // len(corpora)
    read = (split_sentences(corpus_lines([corpus], "train", data_dir)) for corpus in corpora)
    texts = chain.from_iterable(first_pieces(sentences, tokenizer, share) for sentences in read)
    teacher, dim = find_model(recipe.warmup.teacher), recipe.model.hidden
    return sentences_with_teacher(texts, teacher, tokenizer, dim, cache_folder(), seed=recipe.run.seed)


def train_task(
    recipe: Recipe,
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
    task: Task,
    data_dir: str | None = None,
    *,
    first: str = "",
    progress: Callable[[int, float], None] | None = None,
) -> Path:
    """Stage two: the task, in groups that grow, from the warmed-up (or plain, or pretrained) weights.

    `first` is the model that the run started from, before any warm-up. If it is a classifier and the recipe names no
    teacher, it is the teacher. A warm-up has no task head, so the head is copied from the teacher if datamux made it.
    A start model with a head for this very task, which is not the teacher, keeps its own.
    """
    final = folder / "model"
    if (final / "training.json").exists():
        return final
    train_examples, held_out, labels = task_examples(task, data_dir, recipe.run.eval_rows)
    recipe = with_teacher(recipe, first or recipe.model.start, labels, task.kind)
    settings = recipe.task
    check_unlabelled(settings)
    if settings.best_by == "macro_f1" and (task.kind == "token" or labels.problem != "single_label_classification"):
        raise ValueError("task.best_by macro_f1 is for rows with one label each: set task.best_by=score")
    labelled = len(train_examples)
    train_examples = with_unlabelled(train_examples, settings, task, labels)
    rows = encode_examples(train_examples, labels, tokenizer, recipe.model.max_tokens)
    model = build(recipe.model, HEADS[task.kind], vocab_size=len(tokenizer), labels=labels, seed=recipe.run.seed)
    assert isinstance(model, MuxPreTrainedModel)
    if recipe.model.word_vectors and not recipe.model.start:
        copy_word_vectors(model, tokenizer, find_model(recipe.model.word_vectors))
    teacher = load_teacher(settings.teacher, CLASSIFIERS[task.kind], labels)
    if recipe.model.frozen:
        check_label_order(recipe.model.start, labels)
    elif teacher is not None and (
        settings.teacher == recipe.model.start or not has_own_head(recipe.model.start, model)
    ):
        copy_head(teacher, model, order_of(teacher.config, labels))
    if teacher is not None:
        with first_process_first():
            teach(teacher, model, recipe, rows, train_examples, labels, tokenizer, folder)
        label_by_teacher(rows, labelled, labels)
    objective = TaskObjective(
        alpha=settings.alpha,
        kind="one" if settings.objective == "one" else "all",
        candidates=settings.candidates,
        positions=settings.positions,
        temperature=settings.temperature,
        class_weights=_class_weights(settings.balance, rows, labels),
        distill_logits=settings.distill_logits,
        distill_states=settings.distill_states,
        extra_losses=settings.extra_losses,
        consistency=settings.consistency,
    )
    curriculum = _curriculum(recipe, settings, grow_when="below", window=20)
    callbacks: list[Any] = [StopEarly(settings.patience, curriculum)] if settings.patience else []
    callbacks += [Progress(progress)] if progress is not None else []
    trainer = MuxTrainer(
        model=model,
        args=training_arguments(recipe, settings, folder),
        train_dataset=rows,
        eval_dataset=encode_examples(held_out, labels, tokenizer, recipe.model.max_tokens),
        data_collator=_as_is,
        compute_metrics=lambda p: _metrics(p.predictions, p.label_ids, labels, settings.best_by),
        curriculum=curriculum,
        objective=objective,
        watch="task_loss",
        groups=settings.groups,
        min_rows=settings.min_rows,
        repetition=settings.repetition,
        length_noise=recipe.run.length_noise,
        callbacks=callbacks,
    )
    return _run(trainer, recipe, tokenizer, folder)


def _metrics(predictions: Any, truth: Any, labels: Labels, best_by: str) -> dict[str, float]:
    """The metrics of a whole split, with macro F1 if it decides which model is the best."""
    found = score(predictions, truth, labels)
    if best_by == "macro_f1":
        from sklearn.metrics import f1_score

        found["macro_f1"] = float(f1_score(truth, predictions.argmax(-1), average="macro", zero_division=0.0))
    return found


def _class_weights(balance: float, rows: Rows, labels: Labels) -> Tensor | None:
    """How much a row (or a word) of each label counts; None if all count the same."""
    if not balance:
        return None
    if labels.problem != "single_label_classification":
        raise ValueError(f"task.balance is for rows with one label each, and these are {labels}: set task.balance=0")
    found = rows.labels if rows.token_labels is None else rows.token_labels[rows.token_labels != IGNORED]
    assert found is not None
    return class_weights(torch.bincount(found.flatten(), minlength=len(labels.names)), balance)


def _curriculum(recipe: Recipe, settings: WarmupSettings | TaskSettings, **options: Any) -> Curriculum:
    return Curriculum(
        capacity=recipe.model.num_instances,
        start=first_group_size(settings.start_size, recipe.model.num_instances),
        growth=settings.growth,
        threshold=settings.threshold,
        elastic=settings.elastic,
        smallest=2 if recipe.model.frozen else 1,  # at size 1 there is nothing to learn
        deadline=settings.steps // 2,
        seed=recipe.run.seed,
        **options,
    )


def _run(trainer: MuxTrainer, recipe: Recipe, tokenizer: PreTrainedTokenizerBase, folder: Path) -> Path:
    """Train, or go on from the last checkpoint; then save the model beside its recipe and how it was trained."""
    model: Any = trainer.model
    final = folder / "model"
    model.objective = trainer.objective
    checkpoint = last_checkpoint(folder)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    model.objective = None
    if trainer.is_world_process_zero():
        model.save_pretrained(final)
        if not recipe.model.frozen:  # a frozen classifier reads as much of a text as it always did
            tokenizer.model_max_length = recipe.model.max_tokens  # as in training: longer texts are cut there
        tokenizer.save_pretrained(final)
        (final / "recipe.json").write_text(json.dumps(recipe.as_dict(), indent=2, sort_keys=True))
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


def _as_is(batch: Any) -> Any:
    """Leave the batch as it is: Rows and Chunks already return whole batches."""
    return batch
