"""Each slot shrinks its image and places it in its own tile.

    phi_i(x) = place_i(shrink(x)),   t x t tiles, t the smallest number with t * t >= n

Paper: appendix "Other multiplexing strategies for CNNs".

Differs from the paper: the published notebook has an indexing slip. Of every four images it keeps only the first, and
of that image every fourth row, at full width. `published=True` does the same. Learning the map from there
(`learned=True`) is ours.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from datamux.multiplexers.for_images.base import ImageMap, tiles_per_row


class Mosaic(ImageMap):
    def transform(self, images: Tensor, slot: int) -> Tensor:
        return self.band(images, slot) if self.published else self.tile(images, slot)

    def tile(self, images: Tensor, slot: int) -> Tensor:
        """The shrunk images, each in the tile of `slot`; everything else is zero."""
        tiles = tiles_per_row(self.num_instances)
        size = self.side // tiles
        row, column = divmod(slot, tiles)
        placed = torch.zeros_like(images)
        small = F.adaptive_avg_pool2d(images, size)
        placed[:, :, row * size : (row + 1) * size, column * size : (column + 1) * size] = small
        return placed

    def band(self, images: Tensor, slot: int) -> Tensor:
        """What the published code does.

        It means to place four tiles per row, whatever n is. But its slices skip an axis: the row of a tile selects
        channels, of which there is only one, so rows 1 to 3 select nothing; and the column of a tile selects heights.
        """
        column, row = divmod(slot, 4)
        height = self.side // 4
        if column > 3:
            raise ValueError(
                f"the published mosaic has 16 tiles, so num_instances must be 1 to 16, got {slot + 1} or more; "
                f"`mosaic` takes more"
            )
        placed = torch.zeros_like(images)
        if row == 0:
            placed[:, :, column * height : (column + 1) * height] = images[:, :, ::4]
        return placed
