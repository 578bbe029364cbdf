"""The paper's image networks, multiplexed, from plain settings.

    mlp   400 pixels -> mixture -> 100 tanh          -> 20 a slot -> shared readout -> 10
    cnn   400 pixels -> mixture -> three convolutions -> 84 tanh -> 84 a slot -> shared readout -> 10

Everything up to the demultiplexer is always the paper's; the demultiplexer's depth and the readout are settings.
Paper: appendix on the design of the MNIST experiments.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import nn

from datamux.backbones.vision import DigitCnn, DigitMlp, Readout
from datamux.demultiplexers import build_demultiplexer
from datamux.errors import check_choice
from datamux.model import Multiplexed
from datamux.multiplexers import IMAGE_MULTIPLEXERS, build_multiplexer

Backbone = Literal["mlp", "cnn"]
WIDTHS = {"mlp": (100, 20), "cnn": (84, 84)}  # what the backbone gives, and what the paper's demultiplexer makes of it
CLASSES = 10


@dataclass(frozen=True)
class ImageNetwork:
    """Which network. The defaults are the paper's; `multiplexer_options` and `demultiplexer` go to their classes."""

    backbone: Backbone
    multiplexer: str
    multiplexer_options: Mapping[str, Any] = field(default_factory=dict)
    demultiplexer: Mapping[str, Any] = field(default_factory=lambda: {"layers": 1, "activation": "tanh"})
    tanh_readout: bool = True

    def __post_init__(self) -> None:
        check_choice("backbone", self.backbone, get_args(Backbone))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def build(self, num_instances: int, *, dim: int = 400, seed: int = 0) -> Multiplexed:
        """The network for `num_instances` images of `dim` pixels a pass, with fresh weights."""
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
        """The paper's layers for one image at a time, without any of our parts: `identity` at 1, bare."""
        torch.manual_seed(seed)
        width, out = WIDTHS[self.backbone]
        body = DigitMlp(dim, width) if self.backbone == "mlp" else DigitCnn(1, width)
        return nn.Sequential(body, nn.Linear(width, out), nn.Tanh(), nn.Linear(out, CLASSES), nn.Tanh())

    @property
    def maps(self) -> int:
        """How many times as large as one image the mixture is."""
        usual = getattr(IMAGE_MULTIPLEXERS.get(self.multiplexer), "keywords", {}).get("maps", 1)
        return int(self.multiplexer_options.get("maps", usual))
