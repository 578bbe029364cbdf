"""Each slot turns its image by its own angle.

    phi_i(x) = turn(x, 360 degrees * i / n)

Paper: appendix "Other multiplexing strategies for CNNs".

Differs from the paper: turned images are interpolated with bicubic weights, where the published notebook uses splines;
at multiples of 90 degrees both are exact. The notebook also scales image i by (1 - 2i), so that later images drown out
earlier ones. We take this for a slip and leave it out; `published=True` does the same as the notebook.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from datamux.multiplexers.for_images.base import ImageMap


class Rotation(ImageMap):
    def transform(self, images: Tensor, slot: int) -> Tensor:
        angle = 2 * math.pi * slot / self.num_instances
        turn = torch.tensor([[math.cos(angle), -math.sin(angle), 0.0], [math.sin(angle), math.cos(angle), 0.0]])
        grid = F.affine_grid(turn.expand(len(images), 2, 3), list(images.shape), align_corners=False)
        turned = F.grid_sample(images, grid, mode="bicubic", align_corners=False)
        return turned * (1 - 2 * slot) if self.published else turned
