"""Every slot gets the mixture as it is.

    z_i = h

With one slot this is the plain network; with more it is the baseline that shows what demultiplexing is for.
"""

from torch import Tensor

from datamux.demultiplexers.base import Demultiplexer


class IdentityDemultiplexer(Demultiplexer):
    def activations(self, h: Tensor, prefix: Tensor, slots: int) -> Tensor:
        return h.unsqueeze(1).expand(-1, slots, -1, -1)

    def project(self, a: Tensor) -> Tensor:
        return a
