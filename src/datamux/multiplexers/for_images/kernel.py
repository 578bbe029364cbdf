"""Each slot slides its own 3x3 kernel over its image.

    phi_i(x) = x * K_i,   K_i (3 3) from N(0, 1)

Paper: appendix "Other multiplexing strategies for CNNs". The kernels are random and fixed, or learned (`learned=True`).
Nothing differs from the paper.
"""

from torch import Tensor
from torch.nn import functional as F

from datamux.multiplexers.base import Scale
from datamux.multiplexers.for_images.base import ImageMultiplexer
from datamux.seeded import gaussian


class Kernel(ImageMultiplexer):
    keys: Tensor  # n 1 3 3

    def __init__(
        self, num_instances: int, dim: int, *, learned: bool = False, scale: Scale = "sum", seed: int = 0
    ) -> None:
        super().__init__(num_instances, dim, scale=scale, seed=seed)
        self._register_state(learned=learned)

    def initial_state(self) -> dict[str, Tensor]:
        return {"keys": gaussian(self.num_instances, 1, 3, 3, generator=self.generator())}

    def mix_images(self, images: Tensor, used: Tensor | None) -> Tensor:
        k = images.shape[1]
        return F.conv2d(images, self.keys[:k].to(images.dtype), padding=1, groups=k).sum(1, keepdim=True)
