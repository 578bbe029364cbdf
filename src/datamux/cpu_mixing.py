"""Mixing on a CPU, without gradients: one slot after the other, a few groups at a time.

`Multiplexed.embed_and_mix` says what mixing is: embed all instances (b n l d), then sum over the slots. That tensor is
n times as large as the mixture, and on a CPU writing and reading it back costs more than the arithmetic. Here the sum
is built up in place, in pieces that stay in the processor's cache. The result is the same up to rounding, and the
contract tests compare the two for every registered multiplexer.

The slot-by-slot sum needs a multiplexer whose only work is to multiply each slot by its weights. Any other is mixed
by `embed_and_mix`.
"""

from typing import Any, Protocol

import torch
from torch import Tensor

from datamux.backbones.base import Backbone
from datamux.demultiplexers import Demultiplexer
from datamux.multiplexers import Multiplexer

CACHED = 1 << 19  # how many numbers stay in a core's cache: two megabytes

Mixture = tuple[Tensor, Tensor | None]  # b p+l d, and where any instance of the group has a token: b p+l


class Mixing(Protocol):
    """The parts of `Multiplexed` that mixing needs."""

    backbone: Backbone
    multiplexer: Multiplexer
    demultiplexer: Demultiplexer

    def embed_and_mix(self, x: Tensor, token_mask: Tensor | None, extra: dict[str, Tensor]) -> Mixture: ...


def suits_cpu_mixing(backbone: Backbone, multiplexer: Multiplexer, x: Tensor) -> bool:
    """Whether groups `x` (b n l) can be mixed here, and faster than by `embed_and_mix`.

    Not in training, where the vectors stay in memory for the backward pass anyway; not while a graph is recorded, which
    must not depend on the number of groups; and not if embedding runs a network, which is faster on larger pieces.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or x.device.type != "cpu":
        return False
    token_ids = x.dim() == 3 and not x.is_floating_point()
    return token_ids and not backbone.embeds_deeply and multiplexer.mixing_weights(x.shape[1]) is not None


def mix_on_cpu(mux: Mixing, x: Tensor, token_mask: Tensor | None, extra: dict[str, Tensor]) -> Mixture:
    """The same as `mux.embed_and_mix`, in pieces that stay in the cache."""
    if type(mux.demultiplexer).add_prefix is not Demultiplexer.add_prefix:  # it adds something before mixing
        return _mix_a_few_groups_at_a_time(mux, x, token_mask, extra)
    mixture = _add_slot_by_slot(mux.backbone, mux.multiplexer, x, token_mask, extra)
    return mixture, None if token_mask is None else token_mask.any(1)


def _add_slot_by_slot(
    backbone: Backbone, multiplexer: Multiplexer, x: Tensor, token_mask: Tensor | None, extra: dict[str, Tensor]
) -> Tensor:
    """The mixtures (b l d) of groups `x` (b n l). All slots' vectors pass through one small piece of memory."""
    groups, slots, length = x.shape
    dim = backbone.embedding_dim
    weights = multiplexer.mixing_weights(slots)
    assert weights is not None
    words = backbone.table
    table = None if extra else words  # without extra inputs, embedding is a lookup that can write into `space`
    mixture = torch.zeros(groups, length, dim, dtype=weights.dtype if words is None else words.dtype)
    weights = weights.to(mixture.dtype)
    step = max(1, CACHED // (length * dim))  # groups at a time
    space = mixture.new_empty(min(step, groups) * length, dim)  # used again for every slot
    for start in range(0, groups, step):
        here = slice(start, start + step)
        total = mixture[here].view(-1, dim)
        for slot in range(slots):
            ids, mask, more = _take((here, slice(slot, slot + 1)), x, token_mask, extra)
            if table is not None:
                vectors = torch.index_select(table, 0, ids.flatten(), out=space[: len(total)])
            else:
                vectors = backbone.embed(ids, mask, **more).reshape(-1, dim)
            if mask is not None:
                vectors = torch.mul(vectors, mask.reshape(-1, 1), out=space[: len(total)])
            total.addcmul_(vectors, weights[slot])
    mixture *= multiplexer.factor(slots, token_mask).to(mixture.dtype).view(-1, 1, 1)
    return mixture


def _mix_a_few_groups_at_a_time(mux: Mixing, x: Tensor, token_mask: Tensor | None, extra: dict[str, Tensor]) -> Mixture:
    """A prefix is added to all slots of a group together, so the pieces are whole groups."""
    step = max(1, CACHED // max(1, x[:1].numel() * mux.backbone.embedding_dim))
    starts = range(0, len(x), step)
    pieces = [mux.embed_and_mix(*_take(slice(start, start + step), x, token_mask, extra)) for start in starts]
    attended = [mask for _, mask in pieces if mask is not None]
    return torch.cat([mixture for mixture, _ in pieces]), torch.cat(attended) if attended else None


def _take(
    which: Any, x: Tensor, token_mask: Tensor | None, extra: dict[str, Tensor]
) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
    """The same groups (and slots) of all inputs."""
    mask = None if token_mask is None else token_mask[which]
    return x[which], mask, {name: rows[which] for name, rows in extra.items()}
