"""No transformation: the slots are simply added up (or averaged), so their order is lost.

    phi_i(x) = x

Paper: the "ID" baseline of the section on MLPs and CNNs (accuracy about 1/n). With one slot it is the plain network.
"""

import torch
from torch import Tensor

from datamux.multiplexers.base import Multiplexer


class Identity(Multiplexer):
    def weights(self, slots: int) -> Tensor:
        return torch.ones(slots, self.dim)
