"""The paper's protocol for the paper's CNN, in less time.

    after the mixture     one call of C++ a step (`datamux.native.step`)
    a fixed multiplexer   if it is linear, every training image is put through every slot's map once, before the first
                          step: a mixture is then a sum of rows of a table
    one that learns       mixes as ever, and torch carries the mixture's gradient back to its weights

The same numbers as torch's, to rounding.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datamux.backbones.base import PlainBackbone
from datamux.backbones.vision import DigitCnn, Readout
from datamux.demultiplexers.mlp import MlpDemultiplexer
from datamux.model import Multiplexed
from datamux.multiplexers import Multiplexer
from datamux.multiplexers.base import mix_by_matrices
from datamux.native.layer import LANES
from datamux.native.step import Steps

LARGEST = 2 << 30  # bytes of a table: 16 slots of 60,000 images take 1.5 GB


class QuickSteps:
    """Steps of SGD at a fixed rate on the squared error, summed over slots; `rows` says which images, group by group.

    `keep` puts what was learned into `model`.
    """

    def __init__(self, model: Multiplexed, images: Tensor, labels: Tensor, rate: float) -> None:
        self.multiplexer, self.images, self.labels = model.multiplexer, images, labels
        self.slots = model.num_instances
        self.steps = Steps(_weights(model), rate)
        learned = list(model.multiplexer.parameters())
        self.optimiser = torch.optim.SGD(learned, lr=rate, fused=True) if learned else None
        self.table = None if learned else _table(model.multiplexer, images)
        self.offsets = torch.arange(self.slots) * len(images)  # of each slot's rows in the table

    @staticmethod
    def can(model: nn.Module, images: Tensor, labels: Tensor, groups: int) -> bool:
        """Whether this is the paper's CNN, all of it learned, switched to native layers, and all numbers are as these
        take them, with as many groups a step as they can take.
        """
        return (
            type(model) is Multiplexed
            and type(model.backbone) is PlainBackbone
            and type(model.backbone.module) is DigitCnn
            and model.backbone.module.native
            and type(model.demultiplexer) is MlpDemultiplexer
            and (model.demultiplexer.layers, model.demultiplexer.activation) == (1, "tanh")
            and type(model.head) is Readout
            and model.head.tanh
            and model.bypass is None
            and model.group_size == model.num_instances
            and groups % LANES == 0
            and all(p.requires_grad for p in model.parameters())
            and all(t.dtype == torch.float32 and t.device.type == "cpu" for t in (images, *model.parameters()))
            and bool((labels >= 0).all() and (labels < model.head.out.out_features).all())
        )

    def __call__(self, rows: Tensor) -> None:
        mixture, labels = self.mixed(rows), self.labels.index_select(0, rows)
        grad = self.steps(mixture.detach(), labels, backward=self.optimiser is not None)
        if self.optimiser is not None:
            self.optimiser.zero_grad()
            mixture.backward(grad)  # type: ignore[no-untyped-call]
            self.optimiser.step()

    def mixed(self, rows: Tensor) -> Tensor:
        """(g*n) -> (g c*d)."""
        groups = rows.view(-1, self.slots)
        if self.table is None:
            mixture: Tensor = self.multiplexer(self.images.index_select(0, rows).view(*groups.shape, -1))
            return mixture
        return F.embedding_bag(groups + self.offsets, self.table, mode="sum")

    def keep(self) -> None:
        self.steps.keep()


def _weights(model: Multiplexed) -> dict[str, Tensor]:
    """By the names that `Steps` gives them."""
    demultiplexer, head = model.demultiplexer, model.head
    assert isinstance(demultiplexer, MlpDemultiplexer)
    assert isinstance(head, Readout)
    layers = [part for part in model.backbone.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    named = dict(zip(("first", "second", "third", "fourth"), layers, strict=True), readout=head.out)
    weights: dict[str, Tensor] = {"slots": demultiplexer.weight_in, "slots_bias": demultiplexer.bias_in}
    for name, layer in named.items():
        assert layer.bias is not None
        weights |= {name: layer.weight, f"{name}_bias": layer.bias}
    return weights


@torch.no_grad()
def _table(multiplexer: Multiplexer, images: Tensor) -> Tensor | None:
    """What every slot makes of every image, (n*i c*d), scaled as in a full group.

    None where it is not linear, so that it does not add up, and where it would be too large.
    """
    n, d = multiplexer.num_instances, images.shape[1]
    each = torch.zeros(d, n, d)  # a group for every pixel of the slot
    matrices = []
    for slot in range(n):
        each[:, slot] = torch.eye(d)
        matrices.append(multiplexer(each))
        each[:, slot] = 0.0
    some = images[torch.arange(64 * n) % len(images)].view(64, n, d)
    expected = multiplexer(some)
    added = mix_by_matrices(some, torch.stack(matrices))
    size = n * len(images) * expected.shape[1] * images.element_size()
    if size > LARGEST or not torch.allclose(added, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item()):
        return None
    table = images.new_empty(n, len(images), expected.shape[1])
    for of_slot, matrix in zip(table, matrices, strict=True):
        torch.mm(images, matrix, out=of_slot)
    return table.flatten(0, 1)
