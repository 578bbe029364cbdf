"""Each slot has its own small network; all of them are computed in one batched operation.

    layers 2:  z_i = LN(W2_i act(W1_i h + b1_i) + b2_i)      einsum "brd, nde -> bnre"
    layers 1:  z_i = act(W1_i h + b1_i)                      the paper's MNIST networks (out_dim 20 and 84, tanh)

Paper: "MLP Demuxing" (Section 3.2). Parameters grow with n, and the paper found it unstable for Transformers.
Weights and biases start as those of torch's nn.Linear, which the published code uses.
"""

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datamux.demultiplexers.base import Demultiplexer
from datamux.errors import check_choice
from datamux.seeded import layer_start

Activation = Literal["gelu", "tanh"]


class MlpDemultiplexer(Demultiplexer):
    weight_in: Tensor  # n d e
    bias_in: Tensor  # n e
    weight_out: Tensor  # n e d
    bias_out: Tensor  # n d

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        layers: int = 2,
        hidden_dim: int | None = None,
        out_dim: int | None = None,
        activation: Activation = "gelu",
        embedding_dim: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, embedding_dim=embedding_dim, seed=seed)
        if layers not in (1, 2):
            raise ValueError(f"layers must be 1 or 2, got {layers!r}")
        check_choice("activation", activation, get_args(Activation))
        self.layers = layers
        self.activation = activation
        self.out_dim = out_dim or dim
        self.hidden_dim = self.out_dim if layers == 1 else hidden_dim or dim
        self._register_state(learned=True)
        if layers == 2:
            self.norm = nn.LayerNorm(self.out_dim)

    def initial_state(self) -> dict[str, Tensor]:
        n, d, e, generator = self.num_instances, self.dim, self.hidden_dim, self.generator()
        state = {
            "weight_in": layer_start(n, d, e, inputs=d, generator=generator),
            "bias_in": layer_start(n, e, inputs=d, generator=generator),
        }
        if self.layers == 2:
            state["weight_out"] = layer_start(n, e, self.out_dim, inputs=e, generator=generator)
            state["bias_out"] = layer_start(n, self.out_dim, inputs=e, generator=generator)
        return state

    def activations(self, h: Tensor, prefix: Tensor, slots: int) -> Tensor:
        wide = self.weight_in[:slots].transpose(0, 1).flatten(1)  # d n*e: one product for all slots
        a = F.linear(h, wide.t(), self.bias_in[:slots].flatten())  # b r n*e
        a = a.view(*h.shape[:2], slots, -1).transpose(1, 2)  # b n r e
        return F.gelu(a) if self.activation == "gelu" else torch.tanh(a)

    def project(self, a: Tensor) -> Tensor:
        if self.layers == 1:
            return a
        slots = a.shape[1]
        z = torch.einsum("bnre,ned->bnrd", a, self.weight_out[:slots]) + self.bias_out[:slots, None]
        normed: Tensor = self.norm(z)
        return normed
