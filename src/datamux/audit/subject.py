"""The model under audit and its rows. It asks the model about groups that the questions put together themselves."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from datamux.evaluate.evaluate_model import check_fits, find_task, load_rows
from datamux.inference.loading import load_runtime
from datamux.inference.runtime import TorchRuntime, padded_to
from datamux.tasks.labels import Labels
from datamux.tasks.rows import IGNORED, Rows
from datamux.tasks.task import load_splits
from datamux.zoo import find_model

BATCH = 512  # rows that run at once


@dataclass(frozen=True)
class Subject:
    """A multiplexed classifier or tagger, with rows whose labels are known.

    An answer has r parts: one for a text with one label, one per word for a tagger.
    """

    runtime: TorchRuntime
    rows: Rows
    labels: Labels

    @property
    def num_instances(self) -> int:
        return self.runtime.num_instances

    @property
    def tags(self) -> bool:
        """Whether the model has one answer per word."""
        return self.rows.token_labels is not None

    @cached_property
    def truth(self) -> list[Tensor]:
        """The right classes of each row: (r)."""
        found = [self.rows.batch([row])["labels"].view(-1) for row in range(len(self.rows))]
        return [labels[labels != IGNORED] for labels in found]

    @cached_property
    def asked(self) -> list[Tensor]:
        """For a tagger, the tokens of each row that carry a label."""
        return [(self.rows.batch([row])["labels"][0] != IGNORED).nonzero().view(-1) for row in range(len(self.rows))]

    def ask(self, groups: Tensor, slots: Tensor) -> list[Tensor]:
        """Class probabilities (r c) of the row in slot `slots[g]` of each group; `groups` (g k) holds row numbers."""
        pairs = zip(self._logits(groups), groups, slots.tolist(), strict=True)
        return [self._answer(group[slot], int(rows[slot])) for group, rows, slot in pairs]

    def ask_all(self, groups: Tensor) -> list[list[Tensor]]:
        """The same for every slot of every group."""
        return [
            [self._answer(logits, row) for logits, row in zip(group, rows.tolist(), strict=True)]
            for group, rows in zip(self._logits(groups), groups, strict=True)
        ]

    def _answer(self, logits: Tensor, row: int) -> Tensor:
        return (logits[self.asked[row]] if self.tags else logits[None]).softmax(-1)

    def _logits(self, groups: Tensor) -> Iterator[Tensor]:
        """(k c) or (k l c) of each group."""
        k = groups.shape[1]
        for some in torch.split(groups, max(1, BATCH // k)):
            found = self.runtime.logits(self._batch(some), k)
            yield from torch.unflatten(found, 0, (len(some), k))

    def _batch(self, groups: Tensor) -> dict[str, Tensor]:
        return {name: x for name, x in self.rows.batch(groups.flatten()).items() if name != "labels"}

    @torch.inference_mode()
    def represent(self, groups: Tensor) -> tuple[Tensor, Tensor]:
        """What each slot's head reads (g k d), and what it answers (g k c); for a tagger, means over the tokens."""
        states, answers = [], []
        k = groups.shape[1]
        model: Any = self.runtime.model
        for some in torch.split(groups, max(1, BATCH // k)):
            batch = padded_to(self.runtime.padded_length, self._batch(some))
            mask = batch["attention_mask"].bool()
            encoded = model.encode(**{name: x.to(model.device) for name, x in batch.items()}, group_size=k)
            z = model.mux.read_rows(encoded, model.mux.head.reads).cpu()  # i r d
            logits = model.mux.answer(encoded).cpu()
            if self.tags:
                share = mask.float() / mask.sum(1, keepdim=True)
                z, logits = torch.einsum("il,ild->id", share, z), torch.einsum("il,ilc->ic", share, logits)
            states.append(z.reshape(len(some), k, -1).float())
            answers.append(logits.reshape(len(some), k, -1).float())
        return torch.cat(states), torch.cat(answers)


def load_subject(
    name: str,
    task: str,
    *,
    splits: tuple[str, ...] = ("validation",),
    data_dir: str | None = None,
    text: tuple[str, ...] = ("text",),
    label: str = "label",
    token_level: bool | None = None,
    max_rows: int = 2000,
) -> Subject:
    """The model, and at most `max_rows` rows of a task or of a file."""
    folder = find_model(name)
    chosen = find_task(task, splits, text, label, token_level)
    if chosen.kind == "text":
        raise ValueError(f"an audit needs labelled rows, and {task} is a corpus of text; see datamux ls tasks")
    runtime, config, tags = load_runtime(folder)
    if not isinstance(runtime, TorchRuntime) or runtime.num_instances < 2:
        raise ValueError(f"{name} answers one text per pass, or is exported: an audit needs a multiplexed model")
    check_fits(tags, chosen, name)
    examples = load_splits(chosen, splits, data_dir)
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0))[:max_rows]
    rows, labels = load_rows(folder, config, chosen, examples.only(sorted(order.tolist())))
    if labels.problem != "single_label_classification":
        raise ValueError(f"an audit counts changed answers, and {task} has none to count ({labels.problem})")
    subject = Subject(runtime, rows, labels)
    if len(rows) < 2 * runtime.num_instances:
        raise ValueError(f"{len(rows)} rows are too few: an audit needs at least {2 * runtime.num_instances}")
    return subject


def random_groups(rows: int, k: int, chosen: Tensor, slots: Tensor, generator: torch.Generator) -> Tensor:
    """One group (g k) per chosen row: it sits in its slot, and its neighbours are other rows, drawn at random."""
    others = torch.rand(len(chosen), rows, generator=generator)
    others[torch.arange(len(chosen)), chosen] = -1.0  # a row is never its own neighbour
    groups = others.topk(k, dim=1).indices
    groups[torch.arange(len(chosen)), slots] = chosen
    return groups
