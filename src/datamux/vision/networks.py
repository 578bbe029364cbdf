"""The paper's MLP and CNN for 20x20 digits, multiplexed, from plain settings.

    mlp   400 pixels -> mixture -> 100 tanh                -> 20 per slot -> shared readout -> 10 classes
    cnn   400 pixels -> mixture -> 3 convolutions, 84 tanh -> 84 per slot -> shared readout -> 10 classes

Paper: appendix on the design of the MNIST experiments. tanh follows every layer, even the readout.

The layers up to the demultiplexer are always the paper's. The multiplexer, the depth of the demultiplexer and the
tanh after the readout are settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from datamux.demultiplexers import build_demultiplexer
from datamux.errors import check_choice
from datamux.model import Multiplexed
from datamux.multiplexers import IMAGE_MULTIPLEXERS, MULTIPLEXERS, build_multiplexer

Backbone = Literal["mlp", "cnn"]
WIDTHS = {"mlp": (100, 20), "cnn": (84, 84)}  # the width of the backbone's output, and of the demultiplexer's
CLASSES = 10
REGISTERED = MULTIPLEXERS | IMAGE_MULTIPLEXERS


class DigitMlp(nn.Sequential):
    """(b d) -> (b 100): the paper's MLP, one hidden layer."""

    def __init__(self, in_dim: int = 400, hidden_dim: int = 100) -> None:
        super().__init__(nn.Linear(in_dim, hidden_dim), nn.Tanh())


class DigitCnn(nn.Sequential):
    """(b c*400) -> (b 84): the paper's LeNet for c maps of 20x20 pixels.

    Two things are written differently, and give the same numbers. Pooling comes before tanh, because tanh never changes
    which number is the largest, and a quarter of the tanh is then enough. The third convolution has 3x3 kernels for
    maps of 3x3, so it is a linear layer.
    """

    def __init__(self, maps: int = 1, hidden_dim: int = 84) -> None:
        super().__init__(
            nn.Unflatten(1, (maps, 20, 20)),
            nn.Conv2d(maps, 10, 3),
            nn.MaxPool2d(2),
            nn.Tanh(),
            nn.Conv2d(10, 16, 4),
            nn.MaxPool2d(2),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(16 * 3 * 3, 120),
            nn.Tanh(),
            nn.Linear(120, hidden_dim),
            nn.Tanh(),
        )
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch is faster in this layout


class Readout(nn.Module):
    """(b n 1 e) -> (b n c): the readout that all slots share. In the paper a tanh follows it."""

    reads = "first"

    def __init__(self, in_dim: int = 20, num_labels: int = CLASSES, *, tanh: bool = True) -> None:
        super().__init__()
        self.out = nn.Linear(in_dim, num_labels)
        self.tanh = tanh

    def forward(self, z: Tensor) -> Tensor:
        logits: Tensor = self.out(z.squeeze(2))
        return logits.tanh() if self.tanh else logits


@dataclass(frozen=True)
class ImageNetwork:
    """The settings of a network. The defaults are the paper's.

    `multiplexer_options` and `demultiplexer` are passed on to the classes of these parts.
    """

    backbone: Backbone
    multiplexer: str
    multiplexer_options: Mapping[str, Any] = field(default_factory=dict)
    demultiplexer: Mapping[str, Any] = field(default_factory=lambda: {"layers": 1, "activation": "tanh"})
    tanh_readout: bool = True

    def __post_init__(self) -> None:
        check_choice("backbone", self.backbone, get_args(Backbone))

    def build(self, num_instances: int, *, dim: int = 400, seed: int = 0) -> Multiplexed:
        """The network with fresh weights, for `num_instances` images of `dim` pixels per pass."""
        torch.manual_seed(seed)
        width, out = WIDTHS[self.backbone]
        options = {"scale": "sum", **self.multiplexer_options}
        multiplexer = build_multiplexer(self.multiplexer, num_instances, dim, seed=seed, **options)
        settings = {"out_dim": out, **self.demultiplexer}
        demultiplexer = build_demultiplexer("mlp", num_instances, width, seed=seed, **settings)
        maps = getattr(multiplexer, "maps", 1)
        body = DigitMlp(maps * dim, width) if self.backbone == "mlp" else DigitCnn(maps, width)
        head = Readout(demultiplexer.out_dim, CLASSES, tanh=self.tanh_readout)
        return Multiplexed(body, multiplexer, demultiplexer, head)

    def build_plain(self, *, dim: int = 400, seed: int = 0) -> nn.Sequential:
        """The paper's layers for one image per pass, without multiplexing: what `identity` computes with one slot."""
        torch.manual_seed(seed)
        width, out = WIDTHS[self.backbone]
        body = DigitMlp(dim, width) if self.backbone == "mlp" else DigitCnn(1, width)
        return nn.Sequential(body, nn.Linear(width, out), nn.Tanh(), nn.Linear(out, CLASSES), nn.Tanh())

    @property
    def maps(self) -> int:
        """How many times as large as one image the mixture is."""
        return int(self._options.get("maps", 1))

    @property
    def published(self) -> bool:
        """Whether the multiplexer does what the published code does where that is a slip."""
        return bool(self._options.get("published", False))

    @property
    def multiplexer_class(self) -> Any:
        registered = REGISTERED[self.multiplexer]
        return getattr(registered, "func", registered)

    def corrects(self, other: "ImageNetwork") -> bool:
        """Whether the other network does what the published code does, and this one is the same without the slip."""
        corrected = {**other._options, "published": False}
        return (
            other.published
            and self.multiplexer_class is other.multiplexer_class
            and {"published": False, **self._options} == corrected
            and replace(self, multiplexer="", multiplexer_options={})
            == replace(other, multiplexer="", multiplexer_options={})
        )

    @property
    def _options(self) -> dict[str, Any]:
        """All options of the multiplexer: those that its registered name stands for, and those given here."""
        preset = getattr(REGISTERED.get(self.multiplexer), "keywords", {})
        return {**preset, **self.multiplexer_options}
