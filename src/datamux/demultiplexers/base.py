"""What every demultiplexer does: (b p+l d) -> (b n r d), one vector per slot at each position that the head reads.

    z_i = project(activations_i(h))            reads "first": position 0; "all": every position
    z_i = project(mean_j activations_i(h_j))   reads "pool": the mean over the instance's own tokens

The mean is taken after the nonlinearity and before the output matrix. So every slot weighs the tokens by its own
activations, and the matrix is applied once per slot instead of once per token.
"""

from functools import cached_property
from itertools import chain
from typing import get_args

import torch
from torch import Tensor, nn

from datamux.errors import check_at_least_one, check_choice
from datamux.reads import Reads
from datamux.seeded import SeededModule


class Demultiplexer(SeededModule):
    """Base class. A subclass writes `activations` and `project`; if it has a prefix, also the two prefix methods.

    `dim` is the width of the encoder's output. `embedding_dim` is the width of its input vectors, if that is different.
    """

    pools_before_slots = False  # whether `pooled_activations` takes the mean before anything is computed per slot

    def __init__(self, num_instances: int, dim: int, *, embedding_dim: int | None = None, seed: int = 0) -> None:
        check_at_least_one("num_instances", num_instances)
        check_at_least_one("dim", dim)
        super().__init__(seed)
        self.num_instances = num_instances
        self.dim = dim
        self.out_dim = dim
        self.embedding_dim = embedding_dim or dim

    def attach(self, multiplexer: nn.Module) -> None:
        """Called once, when a model is put together: a demultiplexer may use parts of the model's multiplexer."""

    def prefix_length(self, slots: int) -> int:
        """How many positions `add_prefix` puts before the tokens, for this many slots."""
        return 0

    def add_prefix(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(b n l d) -> (b n p+l d), and the mask that goes with it."""
        return x, mask

    def forward(self, h: Tensor, slots: int, reads: Reads = "all", mask: Tensor | None = None) -> Tensor:
        """Take `slots` instances out of `h` (b p+l d), or (b d) for a network without positions.

        `mask` (b n l) is True at each instance's own tokens; only "pool" needs it. Returns (b n r d).
        """
        if h.dim() == 2:
            h, reads = h.unsqueeze(1), "first"
        self._check(h, slots, reads)
        p = self.prefix_length(slots)
        prefix, h = h[:, :p], h[:, p:]
        if reads == "first":
            h = h[:, :1]
        if reads == "pool":
            return self.project(self.pooled_activations(h, prefix, slots, mask))
        return self.project(self.activations(h, prefix, slots))

    def activations(self, h: Tensor, prefix: Tensor, slots: int) -> Tensor:
        """(b r d) -> (b n r e), nonlinearity included."""
        raise TypeError(f"{type(self).__name__} must define activations()")

    def pooled_activations(self, h: Tensor, prefix: Tensor, slots: int, mask: Tensor | None) -> Tensor:
        """(b l d) -> (b n 1 e): the mean of the activations over each instance's own tokens."""
        return mean_over_own_tokens(self.activations(h, prefix, slots), mask)

    def project(self, a: Tensor) -> Tensor:
        """(b n r e) -> (b n r d)."""
        raise TypeError(f"{type(self).__name__} must define project()")

    def _check(self, h: Tensor, slots: int, reads: str) -> None:
        if h.dim() != 3 or h.shape[-1] != self.dim:
            raise ValueError(f"expected h of shape (groups, positions, {self.dim}), got {tuple(h.shape)}")
        if not 1 <= slots <= self.num_instances:
            raise ValueError(f"slots must be 1 to {self.num_instances}, got {slots}")
        check_choice("reads", reads, get_args(Reads))

    def extra_repr(self) -> str:
        return f"num_instances={self.num_instances}, dim={self.dim}"

    @cached_property
    def activation_width(self) -> int:
        """The width e of the activations, found by taking one instance out of a single position."""
        state = next(chain(self.parameters(), self.buffers()), torch.empty(0))
        with torch.no_grad():
            h, prefix = (state.new_zeros(1, length, self.dim) for length in (1, self.prefix_length(1)))
            return self.activations(h, prefix, 1).shape[-1]

    def activation_size(self, slots: int, positions: int, reads: Reads) -> int:
        """How many numbers are held while `slots` instances are taken out of one group of `positions` tokens.

        These are the activations (n r e) before and after the nonlinearity, and two tensors of the output (n r d).
        """
        at_every_token = reads == "all" or (reads == "pool" and not self.pools_before_slots)
        return 2 * slots * (positions if at_every_token else 1) * (self.activation_width + self.out_dim)


def mean_over_own_tokens(a: Tensor, mask: Tensor | None) -> Tensor:
    """(b n l e) -> (b n 1 e): the mean over the positions where `mask` (b n l) is True.

    If all slots share their activations, (b 1 l e), this is one matrix product per group.
    """
    if mask is None:
        return a.mean(2, keepdim=True)
    weight = mask.to(a.dtype)
    weight = weight / weight.sum(-1, keepdim=True).clamp(min=1)
    if a.shape[1] == 1:
        return (weight @ a.squeeze(1)).unsqueeze(2)
    return weight.unsqueeze(2) @ a
