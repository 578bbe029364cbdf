"""Each slot passes its image through two small convolutions of its own, with a tanh after each.

    phi_i(x) = tanh(tanh(x * V_i + a_i) * W_i + b_i)        V_i: 16 kernels of 3x3; W_i: c kernels of 16x3x3

The mixture has c maps (`maps`: 1, 4 or 8 in the paper).

Paper: appendix "Other multiplexing strategies for CNNs".

Differs from the paper: the published notebook has no biases and starts all weights from N(0, 1), so that the second
tanh is saturated from the start. Here the convolutions have biases and start as torch starts a convolution;
`published=True` does the same as the notebook.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from datamux.multiplexers.base import Scale
from datamux.multiplexers.for_images.base import ImageMultiplexer
from datamux.seeded import gaussian, layer_start


class Nonlinear(ImageMultiplexer):
    first: Tensor  # n 16 1 3 3
    first_bias: Tensor  # n 16
    second: Tensor  # n c 16 3 3
    second_bias: Tensor  # n c

    def __init__(
        self,
        num_instances: int,
        dim: int,
        *,
        maps: int = 1,
        kernels: int = 16,
        published: bool = False,
        scale: Scale = "sum",
        seed: int = 0,
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self.maps = maps
        self.kernels = kernels
        self.published = published
        self._register_state(learned=True)

    def initial_state(self) -> dict[str, Tensor]:
        n, k, generator = self.num_instances, self.kernels, self.generator()
        if self.published:
            return {
                "first": gaussian(n, k, 1, 3, 3, generator=generator),
                "second": gaussian(n, self.maps, k, 3, 3, generator=generator),
            }
        return {
            "first": layer_start(n, k, 1, 3, 3, inputs=9, generator=generator),
            "first_bias": layer_start(n, k, inputs=9, generator=generator),
            "second": layer_start(n, self.maps, k, 3, 3, inputs=9 * k, generator=generator),
            "second_bias": layer_start(n, self.maps, inputs=9 * k, generator=generator),
        }

    def mix_images(self, images: Tensor, used: Tensor | None) -> Tensor:
        # One slot at a time stays in the cache; one grouped convolution over all slots does not.
        total = torch.zeros((), dtype=images.dtype, device=images.device)
        for i in range(images.shape[1]):
            phi = self.transform(images[:, i : i + 1], i)
            total = total + (phi if used is None else phi * used[:, i, None, None, None])
        return total

    def transform(self, images: Tensor, slot: int) -> Tensor:
        """What `slot` does to images: (b 1 side side) -> (b c side side)."""
        first_bias, second_bias = (None, None) if self.published else (self.first_bias[slot], self.second_bias[slot])
        last = torch.channels_last  # torch's backward pass is faster in this layout
        first, second = self.first[slot].contiguous(memory_format=last), self.second[slot]
        a = F.conv2d(images.contiguous(memory_format=last), first, first_bias, padding=1).tanh()
        if self.maps > 1:
            return F.conv2d(a, second.contiguous(memory_format=last), second_bias, padding=1).tanh()
        # torch computes sixteen output maps even if only one is asked for. One map per kernel, added up, is faster.
        each = F.conv2d(a, second.transpose(0, 1).contiguous(memory_format=last), padding=1, groups=self.kernels)
        total = each.sum(1, keepdim=True)
        return (total if second_bias is None else total + second_bias).tanh()
