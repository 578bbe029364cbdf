"""One line of a figure: a network, a way to train it, and the group sizes it is trained for."""

from dataclasses import dataclass
from typing import Any

from datamux.train.image_networks import ImageNetwork
from datamux.train.images import PAPER, Protocol

SIZES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Series:
    name: str
    network: ImageNetwork
    protocol: Protocol = PAPER
    sizes: tuple[int, ...] = SIZES

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "network": self.network.as_dict(), "protocol": self.protocol.as_dict()}
