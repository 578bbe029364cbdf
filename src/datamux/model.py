"""The heart: rows in, rows out.

    x = backbone.embed(rows)              # b n l d    vectors; padding contributes exactly 0
    x = demultiplexer.add_prefix(x)       # b n p+l d  (p = 0 for all but the paper's Index Embedding)
    x = multiplexer(x)                    # b p+l d    mixture over the slots in use
    h = backbone.encode(x)                # b p+l d    the unchanged network, once
    z = demultiplexer(h, head.reads)      # b n r d    only what the head asks for
    z = bypass(z, x)                      # b n r d    if there is one: each instance's own vectors as well
    y = head(z)                           # b n ...

Knows shapes and masks. Does not know Hugging Face classes, losses or labels.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from datamux.backbones.base import Backbone, PlainBackbone
from datamux.bypass import Bypass
from datamux.demultiplexers import Demultiplexer
from datamux.grouping import Filler, Grouping, check_group_size
from datamux.multiplexers import Multiplexer
from datamux.reads import Reads

Mixed = tuple[Tensor, Tensor | None, Tensor | None]
"""The mixture (b p+l d), where any of its instances has a token (b p+l), and what goes past it (b n r d)."""
CACHED = 1 << 19  # numbers that a core keeps close: two megabytes


@dataclass(frozen=True)
class Encoded:
    """One pass over all groups, not yet taken apart."""

    states: Tensor  # b p+l d, or b d
    kept: Tensor | None  # b n r d, of each instance before mixing, where there is a bypass
    mask: Tensor | None  # b n l, each instance's own tokens; None: every slot and token is in use
    grouping: Grouping


class Multiplexed(nn.Module):
    """A network that answers `group_size` inputs in one pass. Takes and returns flat rows, any number of them.

    `backbone` is a `Backbone` or any `nn.Module` that maps (b d) to (b d) or (b l d) to (b l d).
    `group_size` (1 to the number of slots) and `filler` may be changed at any time, and for one call alone.
    """

    def __init__(
        self,
        backbone: nn.Module,
        multiplexer: Multiplexer,
        demultiplexer: Demultiplexer,
        head: nn.Module | None = None,
        bypass: Bypass | None = None,
    ) -> None:
        super().__init__()
        if multiplexer.num_instances != demultiplexer.num_instances:
            raise ValueError(
                f"the multiplexer has {multiplexer.num_instances} slots and the demultiplexer "
                f"{demultiplexer.num_instances}; build both with the same num_instances"
            )
        self.backbone = backbone if isinstance(backbone, Backbone) else PlainBackbone(backbone)
        self.multiplexer = multiplexer
        self.demultiplexer = demultiplexer
        self.head = head
        self.bypass = bypass
        self.filler: Filler = "nothing"
        self.group_size = multiplexer.num_instances

    @property
    def num_instances(self) -> int:
        """How many slots there are."""
        return self.multiplexer.num_instances

    @property
    def group_size(self) -> int:
        """How many slots are in use."""
        return self._group_size

    @group_size.setter
    def group_size(self, group_size: int) -> None:
        check_group_size(group_size, self.num_instances)
        self._group_size = group_size

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        group_size: int | None = None,
        filler: Filler | None = None,
        **extra: Tensor,
    ) -> Tensor:
        """Rows `x` (i ...) -> what the head says of each, (i ...); without a head, each row's vectors.

        `mask` (i l) is True (or 1) at tokens and False (or 0) at padding; `extra` are further tensors, a row each.
        """
        encoded = self.encode(x, mask, group_size=group_size, filler=filler, **extra)
        if self.head is None:
            return self.read_rows(encoded, "all")
        return encoded.grouping.ungroup(self.head(self.read_for_head(encoded)))

    def encode(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        group_size: int | None = None,
        filler: Filler | None = None,
        **extra: Tensor,
    ) -> Encoded:
        """Group, mix, and run the network once."""
        grouping = Grouping(
            x.shape[0],
            self.group_size if group_size is None else group_size,
            self.num_instances,
            self.filler if filler is None else filler,
        )
        own = self._group_mask(x, mask, grouping)  # b n l
        extra = {name: grouping.group(rows) for name, rows in extra.items()}
        return Encoded(*self.encode_groups(grouping.group(x), own, **extra), own, grouping)

    def encode_groups(self, x: Tensor, own: Tensor | None, **extra: Tensor) -> tuple[Tensor, Tensor | None]:
        """Mix groups (b n l) and run the network once: (b p+l d), and what is kept for the bypass.

        `own` is True at each instance's own tokens.
        """
        mixture, attended, kept = self._mix_in_parts(x, own, extra)
        return self.backbone.encode(mixture, attended), kept

    def _mix_in_parts(self, x: Tensor, own: Tensor | None, extra: dict[str, Tensor]) -> Mixed:
        """On a CPU, a little at a time: the vectors, (b n l d), then stay in the cache and never fill the memory.

        Not while training, where they are kept for the way back anyhow, nor while a graph is being recorded, nor where
        vectors come with the inputs or mixing is matrix products, which want to be large.
        """
        weights = self.multiplexer.weights(x.shape[1])
        whole = torch.is_grad_enabled() or torch.compiler.is_compiling() or x.is_floating_point() or x.dim() != 3
        if whole or weights is None or x.device.type != "cpu" or self.backbone.embeds_deeply:
            return self._mix(x, own, extra)
        if not self.demultiplexer.prefix_length(x.shape[1]):
            return self._accumulate(x, own, extra, weights)
        step = max(1, CACHED // max(1, x[:1].numel() * self.backbone.embedding_dim))
        parts = [self._mix(*_rows(slice(start, start + step), x, own, extra)) for start in range(0, len(x), step)]
        mixture, attended, kept = (_joined(some) for some in zip(*parts, strict=True))
        assert mixture is not None
        return mixture, attended, kept

    def _accumulate(self, x: Tensor, own: Tensor | None, extra: dict[str, Tensor], weights: Tensor) -> Mixed:
        """One slot after the other of a few groups: what is read is added up where it is still close.

        Where a vector is no more than a row of a table, all are read into one place: fresh memory is what costs.
        """
        groups, k, length = x.shape
        dim = self.backbone.embedding_dim
        mixture = weights.new_zeros(groups, length, dim)
        table = None if extra else self.backbone.table
        step = max(1, CACHED // (length * dim))
        space = weights.new_empty(min(step, groups) * length, dim)
        kept: list[list[Tensor]] = [[] for _ in range(k)]  # of each slot, a few groups at a time
        for start in range(0, groups, step):
            here = slice(start, start + step)
            total = mixture[here].view(-1, dim)
            for slot in range(k):
                ids, mask, more = _rows((here, slice(slot, slot + 1)), x, own, extra)
                if table is not None and table.dtype == space.dtype:
                    vectors = torch.index_select(table, 0, ids.flatten(), out=space[: len(total)])
                else:
                    vectors = self.backbone.embed(ids, mask, **more).reshape(-1, dim)
                if self.bypass is not None:
                    some = vectors.view(-1, 1, length, dim)
                    kept[slot].append(self.bypass.keep(some if self.bypass.reads == "pool" else some.clone(), mask))
                if mask is not None:
                    vectors *= mask.reshape(-1, 1)
                total.addcmul_(vectors, weights[slot])
        mixture *= self.multiplexer.factor(k, own).to(mixture.dtype).view(-1, 1, 1)
        every = torch.cat([torch.cat(some) for some in kept], 1) if self.bypass is not None else None
        return mixture, None if own is None else own.any(1), every

    def _mix(self, x: Tensor, own: Tensor | None, extra: dict[str, Tensor]) -> Mixed:
        vectors = self.backbone.embed(x, own, **extra)
        kept = None if self.bypass is None else self.bypass.keep(vectors, own)
        vectors, mask = self.demultiplexer.add_prefix(vectors, own)
        return self.multiplexer(vectors, mask), mask.any(1) if mask is not None and mask.dim() == 3 else None, kept

    def read(self, encoded: Encoded, reads: Reads, columns: Tensor | None = None) -> Tensor:
        """Take the instances of `encoded` apart, at the positions asked for: (b n r d).

        `columns`: of all token positions, only these.
        """
        slots = encoded.grouping.slots
        states, mask = encoded.states, encoded.mask
        if columns is not None:
            p = self.demultiplexer.prefix_length(slots)
            states = torch.cat([states[:, :p], states[:, p:][:, columns]], dim=1)
            mask = None if mask is None else mask[..., columns]
        z: Tensor = self.demultiplexer(states, slots, reads, mask)
        return z

    def read_for_head(self, encoded: Encoded) -> Tensor:
        """What the head gets: (b n r d)."""
        assert self.head is not None
        reads: Reads = self.head.reads  # type: ignore[assignment]
        return self.pass_by(self.read(encoded, reads), encoded.kept)

    def pass_by(self, z: Tensor, kept: Tensor | None) -> Tensor:
        """Add what went past the mixture to what was taken out of it, if anything did."""
        if self.bypass is None or kept is None:
            return z
        past: Tensor = self.bypass(z, kept)
        return past

    def read_rows(self, encoded: Encoded, reads: Reads, columns: Tensor | None = None) -> Tensor:
        """The same, one row an instance: (i r d)."""
        return encoded.grouping.ungroup(self.read(encoded, reads, columns))

    @staticmethod
    def _group_mask(x: Tensor, mask: Tensor | None, grouping: Grouping) -> Tensor | None:
        if mask is not None:
            if mask.shape != x.shape[:2]:
                raise ValueError(
                    f"the mask has shape {tuple(mask.shape)}; rows of shape {tuple(x.shape)} need {tuple(x.shape[:2])}"
                )
            return grouping.group(mask.bool())
        if grouping.full:
            return None
        occupied = grouping.occupied(x.device)  # b n
        has_tokens = x.dim() == (3 if x.is_floating_point() else 2)
        return occupied.unsqueeze(-1).expand(-1, -1, x.shape[1]) if has_tokens else occupied


def _joined(parts: tuple[Tensor | None, ...]) -> Tensor | None:
    there = [part for part in parts if part is not None]
    return torch.cat(there) if there else None


def _rows(
    which: Any, x: Tensor, own: Tensor | None, extra: dict[str, Tensor]
) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
    """These groups (and slots) of everything that has them."""
    return x[which], None if own is None else own[which], {name: rows[which] for name, rows in extra.items()}
