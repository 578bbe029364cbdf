"""What the heart needs of a network: vectors for its inputs, and one pass over a mixture of them."""

from torch import Tensor, nn


class Backbone(nn.Module):
    """`embedding_dim` is the width that is mixed, `dim` the width that comes out.

    `embeds_deeply`: embedding an input is itself a network's work, not a table.
    """

    embedding_dim: int
    dim: int
    embeds_deeply: bool = False

    @property
    def table(self) -> Tensor | None:
        """(v e) where embedding an input without extras is no more than looking it up here; None otherwise."""
        return None

    def embed(self, x: Tensor, mask: Tensor | None, **extra: Tensor) -> Tensor:
        """Grouped inputs (b n ...) -> vectors (b n ... d)."""
        raise TypeError(f"{type(self).__name__} must define embed()")

    def encode(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """A mixture (b ... d) -> what the network makes of it, (b ... d)."""
        raise TypeError(f"{type(self).__name__} must define encode()")


class PlainBackbone(Backbone):
    """Any `nn.Module` that maps a batch of vectors to a batch of vectors; inputs are mixed as they come.

    The module sees no mask: padding is a zero vector in the mixture. One that wants it is a `Backbone` of its own.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def embed(self, x: Tensor, mask: Tensor | None, **extra: Tensor) -> Tensor:
        return x

    def encode(self, x: Tensor, mask: Tensor | None) -> Tensor:
        h: Tensor = self.module(x)
        return h
