"""Low-rank updates of an encoder's matrices, which act only when it runs a mixture.

    y = x W + b            one instance per pass: the encoder as it is
    y = x W + b + x A B    a mixture of several;   A (d r), B (r e), r small

Source: LoRA (arXiv 2106.09685), for the idea of the update. That it depends on the group size is ours.

The updated encoder is a view, as in halves.py: it shares all modules with the encoder, except those on the way to an
updated matrix, which are shallow copies. The encoder itself is never touched, so a single instance gets the same
answer, bit for bit, whatever the updates have learned.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from datamux.backbones.halves import replace_children
from datamux.seeded import SeededModule, layer_start

NOT_UPDATED = ("pooler", "embeddings")  # no state of a mixture runs through a linear layer there


class LowRankUpdate(SeededModule):
    """x -> x A B. B starts at zero, so the updated encoder starts as the encoder."""

    down: Tensor  # d r
    up: Tensor  # r e

    def __init__(self, in_dim: int, out_dim: int, rank: int, *, seed: int = 0) -> None:
        super().__init__(seed)
        self.sizes = (in_dim, rank, out_dim)
        self._register_state(learned=True)

    def initial_state(self) -> dict[str, Tensor]:
        in_dim, rank, out_dim = self.sizes
        down = layer_start(in_dim, rank, inputs=in_dim, generator=self.generator())
        return {"down": down, "up": torch.zeros(rank, out_dim)}

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.down.to(x.dtype) @ self.up.to(x.dtype)


class UpdatedLinear(nn.Module):
    """A linear layer and its update."""

    def __init__(self, linear: nn.Linear, update: LowRankUpdate) -> None:
        super().__init__()
        self.linear = linear
        self.update = update

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x) + self.update(x)
        return y


def make_updates(encoder: nn.Module, rank: int, *, seed: int = 0) -> dict[str, LowRankUpdate]:
    """One update for each linear layer that runs the mixture, by the layer's path in `encoder`."""
    found = {
        path: module
        for path, module in encoder.named_modules()
        if isinstance(module, nn.Linear) and path.split(".")[0] not in NOT_UPDATED
    }
    return {
        path: LowRankUpdate(linear.in_features, linear.out_features, rank, seed=seed + number)
        for number, (path, linear) in enumerate(found.items())
    }


def updated_view(module: nn.Module, updates: Mapping[str, LowRankUpdate]) -> nn.Module:
    """A view of `module` in which every linear layer named in `updates` has its update."""
    if "" in updates:
        assert isinstance(module, nn.Linear)
        return UpdatedLinear(module, updates[""])
    below: dict[str, dict[str, LowRankUpdate]] = {}
    for path, update in updates.items():
        child, _, rest = path.partition(".")
        below.setdefault(child, {})[rest] = update
    return replace_children(module, **{name: updated_view(module.get_submodule(name), below[name]) for name in below})
