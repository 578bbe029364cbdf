"""A short trainer for the image networks, and their accuracy slot by slot.

    squared         sum over slots of mean over rows and classes of 1/2 (y - out)^2,   y = 1 for the label, -1 otherwise
    cross_entropy   mean over rows of -log softmax(out)[label]

Paper: appendix on the design of the MNIST experiments. It trains with SGD at a fixed rate on the squared error. One
epoch is 1875 steps of 32 groups, so a network with n slots sees n times 60,000 images per epoch. The error is summed
over slots, so every slot counts as much as the only slot of a plain network. Every other setting is ours.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datamux.errors import check_at_least_one, check_choice
from datamux.model import Multiplexed
from datamux.vision.digits import Images
from datamux.vision.networks import CLASSES

Loss = Literal["squared", "cross_entropy"]
Optimiser = Literal["sgd", "adamw"]
Schedule = Literal["fixed", "cosine"]
TARGETS = 2 * torch.eye(CLASSES) - 1
REPORT_EVERY = 25  # steps


@dataclass(frozen=True)
class Protocol:
    """How a network is trained. The defaults are the paper's."""

    loss: Loss = "squared"
    optimiser: Optimiser = "sgd"
    rate: float = 0.1
    schedule: Schedule = "fixed"
    weight_decay: float = 0.0
    groups: int = 32  # per step
    steps: int = 1875  # per epoch
    epochs: int = 15

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, get_args(Loss))
        check_choice("optimiser", self.optimiser, get_args(Optimiser))
        check_choice("schedule", self.schedule, get_args(Schedule))
        for name in ("groups", "steps", "epochs"):
            check_at_least_one(name, getattr(self, name))

    @property
    def total(self) -> int:
        """The number of steps in all epochs."""
        return self.steps * self.epochs


PAPER = Protocol()


def train_on_images(
    model: nn.Module,
    data: Images,
    protocol: Protocol = PAPER,
    *,
    seed: int = 0,
    progress: Callable[[int], None] = lambda steps: None,
) -> None:
    """Train on random groups of training images.

    A multiplexer that can be fitted to images (`principal`) is fitted to the training images first. `progress` is
    called every few steps with the number of steps since the last call.
    """
    generator = torch.Generator().manual_seed(seed)
    n = slots_of(model)
    fit = getattr(getattr(model, "multiplexer", None), "fit", None)
    if fit is not None:
        fit(data.train_images)
    model.train()
    kind = torch.optim.SGD if protocol.optimiser == "sgd" else torch.optim.AdamW
    optimiser = kind(model.parameters(), lr=protocol.rate, weight_decay=protocol.weight_decay, fused=True)
    schedule = None
    if protocol.schedule == "cosine":
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _cosine(step, protocol.total))
    for step in range(1, protocol.total + 1):
        rows = torch.randint(len(data.train_labels), (protocol.groups * n,), generator=generator)
        # Much faster than indexing with [rows].
        images, labels = data.train_images.index_select(0, rows), data.train_labels.index_select(0, rows)
        loss = loss_of(model(images), labels, n, protocol)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if schedule is not None:
            schedule.step()
        if step % REPORT_EVERY == 0:
            progress(REPORT_EVERY)
    progress(protocol.total % REPORT_EVERY)
    model.eval()


def slots_of(model: nn.Module) -> int:
    """How many images share a group; 1 for a network without multiplexing."""
    return model.num_instances if isinstance(model, Multiplexed) else 1


def loss_of(out: Tensor, labels: Tensor, slots: int, protocol: Protocol) -> Tensor:
    """What the protocol minimises, from `out` (i c) and `labels` (i)."""
    if protocol.loss == "squared":
        return 0.5 * slots * F.mse_loss(out, TARGETS[labels])
    return F.cross_entropy(out, labels)


@torch.inference_mode()
def accuracy_by_slot(model: nn.Module, data: Images, *, seed: int = 0, rows: int = 4000) -> list[float]:
    """The accuracy of each slot on the whole test set, which is answered n times, `rows` images at a time.

    The images are in random order. After each of the n passes over the test set they move on by one place, so that
    every image gets another slot and other neighbours. Where n divides the number of images, every image sits in every
    slot exactly once. An incomplete last group is answered like any other.
    """
    n = slots_of(model)
    order = torch.randperm(len(data.test_labels), generator=torch.Generator().manual_seed(seed))
    right, seen = torch.zeros(n), torch.zeros(n)
    batch = max(1, rows // n) * n  # complete groups
    for turn in range(n):
        turned = order.roll(turn)
        for start in range(0, len(turned), batch):
            chosen = turned[start : start + batch]
            hits = (model(data.test_images[chosen]).argmax(-1) == data.test_labels[chosen]).float()
            slot = torch.arange(len(chosen)) % n
            right.index_add_(0, slot, hits)
            seen.index_add_(0, slot, torch.ones_like(hits))
    accuracies: list[float] = (right / seen).tolist()
    return accuracies


def _cosine(step: int, total: int) -> float:
    """The share of the rate at `step`: it rises over the first fiftieth of the steps, then falls to zero."""
    rise = max(1, total // 50)
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise)))
