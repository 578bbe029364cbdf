"""Each slot multiplies elementwise by its own key vector.

    phi_i(x) = v_i * x

Paper: "Hadamard" (Section 3.1; v_i Gaussian and fixed), "Learned" (the same keys, trained) and "Binary" (v_i keeps the
i-th chunk of d/n dimensions), both in the appendix on alternate strategies. One class, several kinds of keys.

Differs from the paper: `key_norm` rescales every key to one length, as the published code does (20 there); the paper
does not mention it, so the default leaves keys as they are. "sign" keys are random +1/-1, with slot 0 all +1. They keep
the length of every vector, and a group of one is then exactly the plain input, which suits pretrained encoders.
"near_one" keys are 1 plus a small random part, and are trained: with one text in every slot the mixture is nearly the
plain input, whatever the number of slots. That suits a pretrained encoder that learns to ensemble (the recipe
small/mimo). They are nearly parallel, so they do not go with the loss `key_orthonormality`.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from datamux.errors import check_choice, check_divisible
from datamux.multiplexers.base import Multiplexer, Scale
from datamux.seeded import gaussian, sign_keys

Keys = Literal["gaussian", "binary", "sign", "near_one"]
NEAR = 0.3  # the standard deviation of "near_one" keys


class Hadamard(Multiplexer):
    keys: Tensor  # n d

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        kind: Keys = "gaussian",
        learned: bool = False,
        key_norm: float | None = None,
        scale: Scale = "mean",
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        check_choice("kind of key", kind, get_args(Keys))
        self.kind = kind
        self.key_norm = key_norm
        self._register_state(learned=learned)

    def initial_state(self) -> dict[str, Tensor]:
        n, d = self.num_instances, self.dim
        if self.kind == "binary":
            chunk = check_divisible("binary", d, n)
            keys = torch.eye(n).repeat_interleave(chunk, dim=1)
        elif self.kind == "sign":
            keys = sign_keys(n, d, self.generator())
        elif self.kind == "near_one":
            keys = 1 + gaussian(n, d, generator=self.generator(), std=NEAR)
        else:
            keys = gaussian(n, d, generator=self.generator())
        if self.key_norm is not None:
            keys = keys * (self.key_norm / keys.norm(dim=1, keepdim=True))
        return {"keys": keys}

    def weights(self, slots: int) -> Tensor:
        return self.keys[:slots]
