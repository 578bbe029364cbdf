"""What a network must do to be multiplexed: turn inputs into vectors, and run once over a mixture of them."""

from torch import Tensor, nn


class Backbone(nn.Module):
    """`embedding_dim` is the width that is mixed, `dim` the width that comes out.

    `embeds_deeply` is True if `embed` runs layers of a network instead of looking vectors up in a table.
    """

    embedding_dim: int
    dim: int
    embeds_deeply: bool = False

    @property
    def table(self) -> Tensor | None:
        """The word vectors (v e), if `embed` without extra inputs only looks them up in this table; None otherwise."""
        return None

    def embed(self, x: Tensor, mask: Tensor | None, **extra: Tensor) -> Tensor:
        """Grouped inputs (b n ...) -> vectors (b n ... d)."""
        raise TypeError(f"{type(self).__name__} must define embed()")

    def encode(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """A mixture (b ... d) -> what the network makes of it, (b ... d)."""
        raise TypeError(f"{type(self).__name__} must define encode()")

    def encode_mixture(self, x: Tensor, mask: Tensor | None, slots: int) -> Tensor:
        """`encode`, for a mixture of `slots` instances. A network that changes with their number overrides it."""
        return self.encode(x, mask)


class PlainBackbone(Backbone):
    """Any `nn.Module` that maps a batch of vectors to a batch of vectors; inputs are mixed as they come.

    The module sees no mask: padding is a zero vector in the mixture. A module that needs the mask is a subclass of
    `Backbone`.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def embed(self, x: Tensor, mask: Tensor | None, **extra: Tensor) -> Tensor:
        return x

    def encode(self, x: Tensor, mask: Tensor | None) -> Tensor:
        h: Tensor = self.module(x)
        return h
