"""The paper's MLP on scikit-learn's 1,797 real digits: the whole method in a few seconds.

    64 pixels -> mixture -> 100 tanh -> 20 a slot, tanh -> shared readout -> 10, tanh

Labels are +1/-1, the loss is the squared error, the optimiser SGD with a fixed rate, as in the paper's appendix.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datamux.backbones.vision import DigitMlp, TanhReadout
from datamux.demultiplexers import build_demultiplexer
from datamux.model import Multiplexed
from datamux.multiplexers import build_multiplexer

PIXELS, HIDDEN, PER_SLOT, CLASSES = 64, 100, 20, 10


@dataclass(frozen=True)
class Digits:
    train_images: Tensor  # i d
    train_labels: Tensor  # i
    test_images: Tensor
    test_labels: Tensor


def load_digits(seed: int = 0) -> Digits:
    """scikit-learn's 8x8 digits, three quarters for training."""
    try:
        from sklearn.datasets import load_digits as load
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the digits come with scikit-learn: pip install 'datamux[demo]'") from error
    data = load()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(seed))
    images = torch.tensor(data.data, dtype=torch.float32)[order] / 16
    labels = torch.tensor(data.target)[order]
    split = len(labels) * 3 // 4
    return Digits(images[:split], labels[:split], images[split:], labels[split:])


def build_digit_mlp(num_instances: int, multiplexer: str = "ortho", seed: int = 0) -> Multiplexed:
    torch.manual_seed(seed)
    demultiplexer = build_demultiplexer(
        "mlp", num_instances, HIDDEN, layers=1, out_dim=PER_SLOT, activation="tanh", seed=seed
    )
    # This network has no normalisation, so the mixture must keep the size of one input.
    mixer = build_multiplexer(multiplexer, num_instances, PIXELS, scale="sqrt", seed=seed)
    return Multiplexed(DigitMlp(PIXELS, HIDDEN), mixer, demultiplexer, TanhReadout(PER_SLOT, CLASSES))


def build_plain_mlp(seed: int = 0) -> nn.Sequential:
    """The same layers for one image at a time, without any of our parts: what to compare with."""
    torch.manual_seed(seed)
    return nn.Sequential(
        DigitMlp(PIXELS, HIDDEN),
        nn.Linear(HIDDEN, PER_SLOT),
        nn.Tanh(),
        nn.Linear(PER_SLOT, CLASSES),
        nn.Tanh(),
    )


def train_digit_mlp(
    model: nn.Module, digits: Digits, *, steps: int = 3000, groups: int = 32, rate: float = 0.2, seed: int = 0
) -> None:
    """SGD on random groups; every step sees `groups` groups."""
    generator = torch.Generator().manual_seed(seed)
    n = model.num_instances if isinstance(model, Multiplexed) else 1
    optimiser = torch.optim.SGD(model.parameters(), lr=rate)
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(digits.train_labels), (groups * n,), generator=generator)
        target = F.one_hot(digits.train_labels[rows], CLASSES) * 2.0 - 1.0
        # Summed over slots, as published: every slot pulls as hard as the one slot of the plain network.
        loss = 0.5 * n * F.mse_loss(model(digits.train_images[rows]), target)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    model.eval()


@torch.inference_mode()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    return float((model(images).argmax(-1) == labels).float().mean())


@torch.inference_mode()
def throughput(
    models: Sequence[nn.Module], images: Tensor, *, rows: int = 20_000, rounds: int = 7
) -> list[list[float]]:
    """Rows a second of each model in each round; the models take turns, so that noise hits all alike."""
    batch = images[torch.arange(rows) % len(images)]
    for model in models:
        model(batch)
    rates: list[list[float]] = [[] for _ in models]
    for _ in range(rounds):
        for model, seen in zip(models, rates, strict=True):
            start = time.perf_counter()
            model(batch)
            seen.append(rows / (time.perf_counter() - start))
    return rates
