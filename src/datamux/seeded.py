"""Modules whose own tensors come from a seed: the same seed always gives the same keys.

Every key, slot matrix and prefix vector in this package is set here and nowhere else, so that a module built
normally and one that transformers builds on the meta device and fills later hold the same values.
"""

import math

import torch
from torch import Tensor, nn


class SeededModule(nn.Module):
    """A module that can say what its own parameters and buffers (not its children's) start as."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.seed = seed

    def initial_state(self) -> dict[str, Tensor]:
        """Start values by attribute name. They depend only on the sizes and the seed."""
        return {}

    def generator(self) -> torch.Generator:
        return torch.Generator(device="cpu").manual_seed(self.seed)

    def _register_state(self, *, learned: bool) -> None:
        """Make a parameter (`learned`) or a persistent buffer of every tensor in `initial_state`."""
        with torch.device("cpu"):
            state = self.initial_state()
        for name, value in state.items():
            if learned:
                self.register_parameter(name, nn.Parameter(value))
            else:
                self.register_buffer(name, value)


def gaussian(*shape: int, generator: torch.Generator, std: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=generator, device="cpu") * std


def layer_start(*shape: int, inputs: int, generator: torch.Generator) -> Tensor:
    """Uniform, as torch starts the weights and biases of a layer that computes each output from `inputs` numbers."""
    return (2 * torch.rand(*shape, generator=generator, device="cpu") - 1) / math.sqrt(inputs)


def sign_keys(num_instances: int, dim: int, generator: torch.Generator) -> Tensor:
    """(n d) of random +1 and -1; slot 0 is all +1, so that it changes nothing."""
    keys = torch.where(gaussian(num_instances, dim, generator=generator) < 0, -1.0, 1.0)
    keys[0] = 1.0
    return keys


def random_orthogonal(dim: int, generator: torch.Generator) -> Tensor:
    """A (dim dim) orthogonal matrix in double precision, uniform over the orthogonal group."""
    q, r = torch.linalg.qr(gaussian(dim, dim, generator=generator).double())
    orthogonal: Tensor = q * r.diagonal().sign()
    return orthogonal
