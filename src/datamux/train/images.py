"""Training of the image networks, and their accuracy slot by slot.

    squared         sum over slots of mean over rows and classes of 1/2 (y - out)^2,   y = +1 for the label, -1 else
    cross_entropy   mean over rows of -log softmax(out)[label]

The paper trains with SGD at a fixed rate on the squared error; an epoch is 1875 steps of 32 groups, so a network with n
slots sees n times 60,000 images an epoch. As the error is summed over slots, every slot pulls as hard as the only slot
of the plain network. Every other setting is ours. A multiplexer that can be fitted to images (`principal`) is fitted to
the training images first.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeGuard, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datamux.errors import check_at_least_one, check_choice
from datamux.model import Multiplexed
from datamux.tasks.images import Images
from datamux.train.image_networks import CLASSES
from datamux.train.quick_steps import QuickSteps

Loss = Literal["squared", "cross_entropy"]
Optimiser = Literal["sgd", "adamw"]
Schedule = Literal["fixed", "cosine"]
TARGETS = 2 * torch.eye(CLASSES) - 1
TOLD = 25  # steps between two reports of progress


@dataclass(frozen=True)
class Protocol:
    """How a network is trained. The defaults are the paper's."""

    loss: Loss = "squared"
    optimiser: Optimiser = "sgd"
    rate: float = 0.1
    schedule: Schedule = "fixed"
    weight_decay: float = 0.0
    groups: int = 32
    steps: int = 1875  # an epoch
    epochs: int = 15

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, get_args(Loss))
        check_choice("optimiser", self.optimiser, get_args(Optimiser))
        check_choice("schedule", self.schedule, get_args(Schedule))
        for name in ("groups", "steps", "epochs"):
            check_at_least_one(name, getattr(self, name))

    @property
    def total(self) -> int:
        return self.steps * self.epochs

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


PAPER = Protocol()


def train_on_images(
    model: nn.Module,
    data: Images,
    protocol: Protocol = PAPER,
    *,
    seed: int = 0,
    progress: Callable[[int], None] = lambda steps: None,
) -> None:
    """Train on random groups; `progress` is told now and then how many steps were made since it was last told."""
    generator = torch.Generator().manual_seed(seed)
    n = slots_of(model)
    fit = getattr(getattr(model, "multiplexer", None), "fit", None)
    if fit is not None:
        fit(data.train_images)
    model.train()
    steps: QuickSteps | _TorchSteps
    if _can_be_quick(model, data, protocol):
        steps = QuickSteps(model, data.train_images, data.train_labels, protocol.rate)
    else:
        steps = _TorchSteps(model, data, protocol)
    try:
        for step in range(1, protocol.total + 1):
            steps(torch.randint(len(data.train_labels), (protocol.groups * n,), generator=generator))
            if step % TOLD == 0:
                progress(TOLD)
        progress(protocol.total % TOLD)
    finally:
        if isinstance(steps, QuickSteps):
            steps.keep()
    model.eval()


def slots_of(model: nn.Module) -> int:
    """How many images a group has; one for a network without multiplexing."""
    return model.num_instances if isinstance(model, Multiplexed) else 1


def loss_of(out: Tensor, labels: Tensor, slots: int, protocol: Protocol) -> Tensor:
    """What the protocol minimises, from `out` (i c) and `labels` (i)."""
    if protocol.loss == "squared":
        return 0.5 * slots * F.mse_loss(out, TARGETS[labels])
    return F.cross_entropy(out, labels)


@torch.inference_mode()
def accuracy_by_slot(model: nn.Module, data: Images, *, seed: int = 0, rows: int = 4000) -> list[float]:
    """The accuracy of each slot on the whole test set, which is answered n times.

    The order of images is random; it moves on by one image after each pass, so that slots and neighbours change. Where
    n divides the number of images, every image sits in every slot once. An incomplete last group is answered like any
    other.
    """
    n = slots_of(model)
    order = torch.randperm(len(data.test_labels), generator=torch.Generator().manual_seed(seed))
    right, seen = torch.zeros(n), torch.zeros(n)
    part = max(1, rows // n) * n  # whole groups
    for turn in range(n):
        turned = order.roll(turn)
        for start in range(0, len(turned), part):
            chosen = turned[start : start + part]
            hits = (model(data.test_images[chosen]).argmax(-1) == data.test_labels[chosen]).float()
            slot = torch.arange(len(chosen)) % n
            right.index_add_(0, slot, hits)
            seen.index_add_(0, slot, torch.ones_like(hits))
    found: list[float] = (right / seen).tolist()
    return found


class _TorchSteps:
    """One step a call, on the training images and labels in `rows`."""

    def __init__(self, model: nn.Module, data: Images, protocol: Protocol) -> None:
        self.model, self.data, self.protocol = model, data, protocol
        self.slots = slots_of(model)
        self.optimiser = _optimiser(model, protocol)
        self.schedule = None
        if protocol.schedule != "fixed":
            self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimiser, lambda step: _rate(step, protocol))

    def __call__(self, rows: Tensor) -> None:
        images, labels = self.data.train_images.index_select(0, rows), self.data.train_labels.index_select(0, rows)
        loss = loss_of(self.model(images), labels, self.slots, self.protocol)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        if self.schedule is not None:
            self.schedule.step()


def _can_be_quick(model: nn.Module, data: Images, protocol: Protocol) -> TypeGuard[Multiplexed]:
    paper = replace(PAPER, rate=protocol.rate, groups=protocol.groups, steps=protocol.steps, epochs=protocol.epochs)
    return protocol == paper and QuickSteps.can(model, data.train_images, data.train_labels, protocol.groups)


def _optimiser(model: nn.Module, protocol: Protocol) -> torch.optim.Optimizer:
    kind = torch.optim.SGD if protocol.optimiser == "sgd" else torch.optim.AdamW
    return kind(model.parameters(), lr=protocol.rate, weight_decay=protocol.weight_decay, fused=True)


def _rate(step: int, protocol: Protocol) -> float:
    """The share of the rate at `step`. Cosine: up over a fiftieth of the steps, down to nothing at the end."""
    rise = max(1, protocol.total // 50)
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, protocol.total - rise)))
