"""The Hugging Face Trainer with a group size that changes from step to step. Everything else is the Trainer's."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import Sampler
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments

from datamux.tasks.rows import Rows
from datamux.train.build import in_bf16
from datamux.train.curriculum import Curriculum, CurriculumState
from datamux.train.losses import RetrievalObjective, TaskObjective
from datamux.train.recipe import Recipe, TaskSettings, WarmupSettings

Batch = dict[str, Tensor]


class MuxTrainer(Trainer):
    """Each step draws a group size, takes as many rows of the batch as that size needs, and tells the curriculum.

    A step runs about `groups` groups whatever the size, and at least `min_rows` rows; the batch of the data loader
    (`groups` x capacity rows) is cut down to that. `watch` names the metric that the curriculum follows. `repetition`
    is the share of groups in which one row fills every slot; the step then has as many rows, in more groups.
    """

    def __init__(
        self,
        *,
        curriculum: Curriculum,
        objective: RetrievalObjective | TaskObjective,
        watch: str,
        groups: int,
        min_rows: int = 0,
        mask: tuple[float, int] | None = None,
        repetition: float = 0.0,
        length_noise: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if self.args.n_gpu > 1:
            raise ValueError(
                "several GPUs in one process cannot share a teacher; start one process per GPU with torchrun"
            )
        self.curriculum = curriculum
        self.objective = objective
        self.watch = watch
        self.groups = groups
        self.min_rows = min_rows
        self.mask = mask
        self.repetition = repetition
        self.length_noise = length_noise
        self.add_callback(CurriculumState(curriculum))
        self._sums: dict[str, list[float]] = {}
        self._since = time.perf_counter()

    def compute_loss(
        self, model: Any, inputs: Batch, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs=return_outputs)
        step = self.state.global_step
        k = self.curriculum.draw(step)
        count = max(self.groups * k, self.min_rows // k * k)
        self.objective.twins = None
        if self.objective.consistency > 0 and k > 1:
            rows, self.objective.twins = twice(take_rows(inputs, max(k, count // 2 // k * k)), k)
        else:
            rows = take_rows(inputs, count)
        if self.repetition:
            rows = repeat_some(rows, k, self.repetition)
        if self.mask is not None:
            rows["input_ids"] = mask_words(rows["input_ids"], rows["attention_mask"], *self.mask)
        self.objective.targets = {name: rows.pop(name) for name in list(rows) if name.startswith("teacher_")}
        with trainable_attention(rows["input_ids"].device):
            output = model(**rows, group_size=k)
        watched = torch.tensor(self.objective.metrics[self.watch], device=output.loss.device)
        self.curriculum.observe(step, k, float(self.accelerator.reduce(watched, "mean")))
        for name, value in self.objective.metrics.items():
            self._sums.setdefault(name, []).append(value)
        return (output.loss, output) if return_outputs else output.loss

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        if self.args.train_sampling_strategy != "group_by_length":
            return super()._get_train_sampler(train_dataset)
        return SimilarLengths(self.train_dataset, self.args.train_batch_size, self.args.seed, self.length_noise)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "loss" in logs and self._sums:
            logs |= {name: sum(values) / len(values) for name, values in self._sums.items()}
            logs["group_size"] = self.curriculum.size
            now = time.perf_counter()
            logs["seconds"] = self.seconds + now - self._since
            self._since = now
            self._sums = {}
        super().log(logs, *args, **kwargs)

    @property
    def seconds(self) -> float:
        """Wall time of training and its evaluations up to the last log entry, earlier runs included."""
        return float(next((e["seconds"] for e in reversed(self.state.log_history) if "seconds" in e), 0.0))


def take_rows(batch: Batch, rows: int) -> Batch:
    """The first `rows` rows, without the columns in which all of these rows have only padding."""
    taken = {name: values[:rows] for name, values in batch.items()}
    tokens = int(taken["attention_mask"].sum(1).max())
    per_token = {"input_ids", "attention_mask", "token_type_ids"}
    if (
        "labels" in batch
        and batch["labels"].shape == batch["input_ids"].shape
        and not batch["labels"].is_floating_point()
    ):
        per_token |= {"labels", "teacher_logits", "teacher_states"}
    return {name: values[:, :tokens].contiguous() if name in per_token else values for name, values in taken.items()}


def repeat_some(batch: Batch, group_size: int, share: float) -> Batch:
    """All rows in groups, but a random share of the groups has one row, which fills every slot.

    A model that will answer one text from all its slots (filler "repeat" at group size 1) learns it here, as in MIMO.
    No row is left out, so there are more groups than without repetition. The last group may repeat its rows, too.
    """
    ids = batch["input_ids"]
    repeated = torch.rand(len(ids), device=ids.device) < share
    taken = torch.where(repeated, 1, group_size)  # of each group, if there were enough rows for as many groups as rows
    first = taken.cumsum(0) - taken
    taken = torch.minimum(taken, len(ids) - first)[first < len(ids)]
    row = first[: len(taken), None] + torch.arange(group_size, device=ids.device) % taken[:, None]
    return {name: values[row.flatten()] for name, values in batch.items()}


def twice(batch: Batch, group_size: int) -> tuple[Batch, Tensor | None]:
    """All rows twice, the second time in another order, and so among other neighbours; and where each row's copy is.

    Too few rows for one group are left as they are.
    """
    rows = len(batch["input_ids"]) // group_size * group_size
    if not rows:
        return batch, None
    order = torch.randperm(rows, device=batch["input_ids"].device)
    both = {name: torch.cat([values[:rows], values[:rows][order]]) for name, values in batch.items()}
    return both, rows + order.argsort()


def trainable_attention(device: torch.device) -> AbstractContextManager[None]:
    """The plain attention kernel on a CPU, where the backward pass of the fused one takes many times as long."""
    context: AbstractContextManager[None] = sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else nullcontext()
    return context


class SimilarLengths(Sampler[int]):
    """Every row once per epoch, in batches of similar lengths. The order depends only on the seed and the epoch.

    `noise` changes each length at random, up to exp(noise) times longer or shorter, before the rows are sorted. So
    groups also hold texts of different lengths, which a multiplexed model must see in training.
    """

    def __init__(self, rows: Rows, batch_rows: int, seed: int, noise: float = 0.0) -> None:
        self.lengths = (rows.ends - rows.starts).float()
        self.batch_rows = batch_rows
        self.seed = seed
        self.noise = noise
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        noise = self.noise * (2 * torch.rand(len(self), generator=generator) - 1)
        lengths = self.lengths * noise.exp()
        batches: list[Tensor] = []
        for some in torch.split(torch.randperm(len(self), generator=generator), 50 * self.batch_rows):
            for batch in torch.split(some[lengths[some].argsort()], self.batch_rows):
                # Shuffled, because a step with small groups takes the first rows, which must not be the shortest.
                batches.append(batch[torch.randperm(len(batch), generator=generator)])
        *full, last = batches  # the last batch stays last: it may be short, and would shift all batches after it
        order = torch.randperm(len(full), generator=generator).tolist()
        return iter(torch.cat([*(full[i] for i in order), last]).tolist())


class StopEarly(EarlyStoppingCallback):
    """Early stopping that counts only after the curriculum has reached the capacity, at which models are evaluated."""

    def __init__(self, patience: int, curriculum: Curriculum) -> None:
        super().__init__(patience)
        self.curriculum = curriculum

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        saved = state.stateful_callbacks.get(type(self).__name__)
        if state.global_step and saved:
            self.early_stopping_patience_counter = saved["attributes"]["early_stopping_patience_counter"]

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any, **kwargs: Any) -> None:
        if self.curriculum.size == self.curriculum.capacity:
            super().on_evaluate(args, state, control, metrics, **kwargs)


class Progress(TrainerCallback):
    """After every evaluation but the last: `say(steps so far, seconds until the last step)`."""

    def __init__(self, say: Callable[[int, float], None]) -> None:
        self.say = say

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.since, self.first = time.perf_counter(), state.global_step  # it may go on from a checkpoint

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        done, more = state.global_step - self.first, state.max_steps - state.global_step
        if done > 0 and more > 0:
            self.say(state.global_step, (time.perf_counter() - self.since) / done * more)


def mask_words(ids: Tensor, mask: Tensor, rate: float, mask_id: int) -> Tensor:
    """A random share of the words replaced by the mask token."""
    hidden = (torch.rand(ids.shape, device=ids.device) < rate) & mask.bool()
    return ids.masked_fill(hidden, mask_id)


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint: one that has the Trainer's own state, which is written last."""
    found = []
    for checkpoint in folder.glob("checkpoint-*"):
        try:
            state = json.loads((checkpoint / "trainer_state.json").read_text())
            found.append((int(state["global_step"]), checkpoint))
        except (OSError, ValueError, KeyError):
            continue
    return max(found)[1] if found else None


def training_arguments(recipe: Recipe, stage: WarmupSettings | TaskSettings, folder: Path) -> TrainingArguments:
    """The Trainer's settings for one stage of a recipe. With patience, it keeps the best model and may stop early.

    The chunks of a warm-up all have the same length; a teacher's sentences and the rows of a task are ordered by it.
    """
    run, n, steps = recipe.run, recipe.model.num_instances, stage.steps
    rows, by_length, patient, best_by = stage.groups * n, run.group_by_length, False, ""
    if isinstance(stage, TaskSettings):
        rows, patient, best_by = max(rows, stage.min_rows), bool(stage.patience), stage.best_by
    else:
        by_length = by_length and bool(stage.teacher)
    return TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=rows,
        per_device_eval_batch_size=max(1, 128 // n) * n,
        learning_rate=stage.learning_rate,
        warmup_steps=min(run.warmup_steps, steps // 10),
        weight_decay=run.weight_decay,
        adam_beta2=0.98,
        bf16=in_bf16(run),
        seed=run.seed,
        logging_steps=min(50, max(1, steps // 10)),
        eval_strategy="steps",
        eval_steps=min(run.eval_steps, steps),
        save_steps=min(run.eval_steps if patient else run.save_steps, steps),
        save_total_limit=2,
        load_best_model_at_end=patient,
        metric_for_best_model=best_by if patient else None,
        report_to=["tensorboard"] if find_spec("tensorboard") else [],
        train_sampling_strategy="group_by_length" if by_length else "random",
        remove_unused_columns=False,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
    )
