"""A map of n small vectors onto one large vector that can be undone exactly: additive coupling, for any n.

    y_0 = o_{n-1} + F_0(o_{n-2}),   y_i = o_{n-1-i} + F_i(y_{i-1}) for i = 1 ... n-1;   y = [y_0; ...; y_{n-1}]
    undone:  o_{n-1-i} = y_i - F_i(y_{i-1}) for i = n-1 ... 1,   then o_{n-1} = y_0 - F_0(o_{n-2})

Source: RevMUX. Whatever the functions F_i are, the second line gives back exactly what went into the first, because
every F_i sees the same input in both. Its multiplexer and its demultiplexer share the functions.

Differs from the source: its released code undoes the map only for n = 2, and drops out inside F_i, so that in training
the inverse is of another map. Here the inverse holds for every n, and there is no dropout.
"""

import torch
from torch import Tensor, nn

from datamux.errors import check_divisible


class Coupling(nn.Module):
    """`dim` is the width of the large vector; each of the small ones has `width` = dim / n numbers."""

    def __init__(self, name: str, num_instances: int, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.num_instances = num_instances
        self.width = check_divisible(name, dim, num_instances)
        functions = num_instances if num_instances > 1 else 0  # a single vector has no other to be coupled with
        self.functions = nn.ModuleList(self._function(hidden_dim) for _ in range(functions))

    def _function(self, hidden_dim: int) -> nn.Module:
        return nn.Sequential(nn.Linear(self.width, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, self.width), nn.ReLU())

    def forward(self, small: Tensor) -> Tensor:
        """(b n ... d/n) -> (b ... d)."""
        o = small.unbind(1)
        if not self.functions:
            return o[0]
        first, *others = self.functions
        y = [o[-1] + first(o[-2])]
        for function, member in zip(others, o[-2::-1], strict=True):
            y.append(member + function(y[-1]))
        return torch.cat(y, dim=-1)

    def inverse(self, large: Tensor) -> Tensor:
        """(b ... d) -> (b n ... d/n)."""
        y: tuple[Tensor, ...] = torch.split(large, self.width, dim=-1)
        if not self.functions:
            return y[0].unsqueeze(1)
        first, *others = self.functions
        o = [y[i] - function(y[i - 1]) for i, function in enumerate(others, 1)]  # members n-2, n-3, ..., 0
        return torch.stack([*o[::-1], y[0] - first(o[0])], dim=1)
