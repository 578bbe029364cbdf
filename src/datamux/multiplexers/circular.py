"""Each slot binds its input to its own key by circular convolution, as in holographic reduced representations (HRR).

    phi_i(x)_k = sum_j a_i[j] x[k - j],   indices modulo d;   a_i from N(0, 1/d), so that |a_i| is about 1

Paper: MIMONets (NeurIPS 2023), where the keys are learned and `key_orthonormality` is added to the loss. Computed by
Fourier transforms, in d log d steps per number instead of d^2. For feature maps the vectors are the channels at each
position (see backbones/feature_maps.py). The sibling that MIMONets calls MBAT, one 1x1 convolution per slot, is
`learned_ortho` on the same vectors.

Differs from the paper: scaling is a setting, as for all multiplexers; the paper sums. No instance is taken out by
correlation with its key, as in HRR: a demultiplexer learns it. `mlp` with one layer is closest to MIMONets, which has a
1x1 convolution per slot there.
"""

import torch
from torch import Tensor

from datamux.multiplexers.base import Multiplexer, Scale
from datamux.seeded import gaussian


class Circular(Multiplexer):
    keys: Tensor  # n d

    def __init__(
        self, num_instances: int, dim: int, *, learned: bool = False, scale: Scale = "mean", seed: int = 0
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self._register_state(learned=learned)

    def initial_state(self) -> dict[str, Tensor]:
        return {"keys": gaussian(self.num_instances, self.dim, generator=self.generator(), std=self.dim**-0.5)}

    def mix(self, x: Tensor, mask: Tensor | None) -> Tensor:
        slots = x.shape[1]
        full = x if x.dtype == torch.float64 else x.float()  # there is no Fourier transform in half precision
        keys = torch.fft.rfft(self.keys[:slots].to(full.dtype)).view(slots, *[1] * (x.dim() - 3), -1)
        bound = (torch.fft.rfft(full) * keys).sum(1)  # summed before the one transform back
        mixture: Tensor = torch.fft.irfft(bound, n=self.dim)
        return mixture.to(x.dtype)
