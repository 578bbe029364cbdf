"""A convolutional network, cut after its first layers: each image runs through these by itself, then maps are mixed.

    images (b n c h w) -> stem -> maps, channels last (b n h w d) -> mixture (b h w d) -> body -> (b e)

Paper: MIMONets (NeurIPS 2023), whose MIMOConv binds the channels at each position after the first convolution. Any
multiplexer that mixes vectors can do it: `learned_circular` is their HRR, and `learned_ortho` their MBAT.
"""

from torch import Tensor, nn

from datamux.backbones.base import Backbone


class FeatureMaps(Backbone):
    """`stem` makes maps of `channels` channels from images; `body` makes one vector of `dim` numbers from maps."""

    embeds_deeply = True

    def __init__(self, stem: nn.Module, body: nn.Module, *, channels: int, dim: int) -> None:
        super().__init__()
        self.stem = stem
        self.body = body
        self.embedding_dim = channels
        self.dim = dim

    def embed(self, x: Tensor, mask: Tensor | None, **extra: Tensor) -> Tensor:
        maps: Tensor = self.stem(x.flatten(0, 1))
        found = tuple(maps.shape)
        if len(found) != 4 or found[1] != self.embedding_dim:
            raise ValueError(f"the stem must give maps (images, {self.embedding_dim}, height, width), got {found}")
        maps = maps.permute(0, 2, 3, 1)
        return maps.view(*x.shape[:2], *maps.shape[1:])

    def encode(self, x: Tensor, mask: Tensor | None) -> Tensor:
        h: Tensor = self.body(x.permute(0, 3, 1, 2))
        return h
