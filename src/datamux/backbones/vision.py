"""The paper's small image networks, up to where demultiplexing starts. They know nothing of multiplexing.

Paper: appendix on the MNIST models. tanh follows every layer.
"""

import torch
from torch import Tensor, nn

from datamux.native.layer import blocked, fits, layer, unblocked


class DigitMlp(nn.Sequential):
    """(b d) -> (b 100): the paper's MLP, one hidden layer."""

    def __init__(self, in_dim: int = 400, hidden_dim: int = 100) -> None:
        super().__init__(nn.Linear(in_dim, hidden_dim), nn.Tanh())


class DigitCnn(nn.Sequential):
    """(b c*400) -> (b 84): the paper's LeNet for 20x20 images, up to where demultiplexing starts.

    Pooling comes before tanh, not after it: tanh only rises, so that the largest stays the largest, and there is a
    quarter of the work. The third convolution, of 3x3 on what is 3x3 by then, is written as the linear layer it is.
    `native`: the two convolutions are those of `datamux.native`.
    """

    native = False

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
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # the layout with the faster passes

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self)
        if self.native and fits(x):
            first, second = (part for part in parts if isinstance(part, nn.Conv2d))
            maps = layer(blocked(parts[0](x)), first.weight, first.bias, pool=True)
            x = unblocked(layer(maps, second.weight, second.bias, pool=True))
            parts = parts[7:]
        for part in parts:
            x = part(x)
        return x


class Readout(nn.Module):
    """(b n 1 e) -> (b n c): the readout that all slots share. The paper has a tanh after it, too."""

    reads = "first"

    def __init__(self, in_dim: int = 20, num_labels: int = 10, *, tanh: bool = True) -> None:
        super().__init__()
        self.out = nn.Linear(in_dim, num_labels)
        self.tanh = tanh

    def forward(self, z: Tensor) -> Tensor:
        logits: Tensor = self.out(z.squeeze(2))
        return logits.tanh() if self.tanh else logits
