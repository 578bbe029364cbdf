"""The paper's small image networks, up to where demultiplexing starts. They know nothing of multiplexing.

Paper: appendix on the MNIST models. tanh follows every layer.
"""

from torch import Tensor, nn


class DigitMlp(nn.Sequential):
    """(b d) -> (b 100): the paper's MLP, one hidden layer."""

    def __init__(self, in_dim: int = 400, hidden_dim: int = 100) -> None:
        super().__init__(nn.Linear(in_dim, hidden_dim), nn.Tanh())


class TanhReadout(nn.Module):
    """(b n 1 e) -> (b n c): the readout that all slots share."""

    reads = "first"

    def __init__(self, in_dim: int = 20, num_labels: int = 10) -> None:
        super().__init__()
        self.out = nn.Linear(in_dim, num_labels)

    def forward(self, z: Tensor) -> Tensor:
        logits: Tensor = self.out(z.squeeze(2))
        return logits.tanh()
