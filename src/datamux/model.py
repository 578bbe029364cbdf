"""The heart: rows in, rows out.

    x = backbone.embed(groups)            # b n l d    one vector per token
    x = demultiplexer.add_prefix(x)       # b n p+l d  p = 0, except for the paper's Index Embedding
    x = multiplexer(x)                    # b p+l d    the mixture over the slots in use; padding adds exactly 0
    h = backbone.encode(x)                # b p+l d    the unchanged network, once per group
    z = demultiplexer(h, head.reads)      # b n r d    one vector per slot, only where the head reads
    y = head(z)                           # b n ...

It knows shapes and masks. It does not know Hugging Face classes, losses or labels.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from datamux.backbones.base import Backbone, PlainBackbone
from datamux.cpu_mixing import mix_on_cpu, suits_cpu_mixing
from datamux.demultiplexers import Demultiplexer
from datamux.grouping import Filler, Grouping, check_group_size
from datamux.multiplexers import Multiplexer
from datamux.reads import Reads


@dataclass(frozen=True)
class Encoded:
    """What the network made of all groups in one pass, before the instances are taken apart."""

    states: Tensor  # b p+l d, or b d
    token_mask: Tensor | None  # b n l, True at each instance's tokens; None: every slot and token is in use
    grouping: Grouping
    mixture: Tensor | None = None  # b p+l d, what the network ran on; kept only while gradients are recorded


class Multiplexed(nn.Module):
    """A network that answers `group_size` inputs in one pass. It takes and returns flat rows, any number of them.

    `backbone` is a `Backbone`, or any `nn.Module` that maps (b d) to (b d) or (b l d) to (b l d).
    `group_size` (1 to the number of slots) and `filler` can be changed at any time, or passed for a single call.
    """

    def __init__(
        self,
        backbone: nn.Module,
        multiplexer: Multiplexer,
        demultiplexer: Demultiplexer,
        head: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if multiplexer.num_instances != demultiplexer.num_instances:
            raise ValueError(
                f"the multiplexer has {multiplexer.num_instances} slots and the demultiplexer "
                f"{demultiplexer.num_instances}; build both with the same num_instances"
            )
        self.backbone: Backbone = backbone if isinstance(backbone, Backbone) else PlainBackbone(backbone)
        self.multiplexer = multiplexer
        self.demultiplexer = demultiplexer
        self.demultiplexer.attach(multiplexer)
        self.head = head
        self.filler: Filler = "nothing"
        self.group_size = multiplexer.num_instances

    @property
    def num_instances(self) -> int:
        """How many slots the model has."""
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
        """Rows `x` (i ...) -> the head's answer for each row (i ...), or each row's vectors if there is no head.

        `mask` (i l) is True (or 1) at tokens and False (or 0) at padding. `extra` holds further tensors with one
        row per instance.
        """
        return self.answer(self.encode(x, mask, group_size=group_size, filler=filler, **extra))

    # Rows: (i ...)

    def encode(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        group_size: int | None = None,
        filler: Filler | None = None,
        **extra: Tensor,
    ) -> Encoded:
        """Group the rows, mix them, and run the network once per group."""
        grouping = Grouping(
            x.shape[0],
            self.group_size if group_size is None else group_size,
            self.num_instances,
            self.filler if filler is None else filler,
        )
        token_mask = _group_mask(x, mask, grouping)  # b n l
        extra = {name: grouping.group(rows) for name, rows in extra.items()}
        mixture, attended = self.mix_groups(grouping.group(x), token_mask, **extra)
        states = self.backbone.encode_mixture(mixture, attended, grouping.slots)
        return Encoded(states, token_mask, grouping, mixture if torch.is_grad_enabled() else None)

    def answer(self, encoded: Encoded) -> Tensor:
        """The head's answer for each row: (i ...)."""
        slots = encoded.grouping.slots
        return encoded.grouping.ungroup(self.answer_states(encoded.states, slots, encoded.token_mask))

    def read_rows(self, encoded: Encoded, reads: Reads) -> Tensor:
        """Each row's vectors at the positions that `reads` asks for: (i r d)."""
        z: Tensor = self.demultiplexer(encoded.states, encoded.grouping.slots, reads, encoded.token_mask)
        return encoded.grouping.ungroup(z)

    # Groups: (b n ...)

    def answer_groups(self, x: Tensor, token_mask: Tensor | None = None, **extra: Tensor) -> Tensor:
        """Groups (b n l) -> the head's answer for each instance: (b n ...)."""
        slots = x.shape[1]
        states = self.backbone.encode_mixture(*self.mix_groups(x, token_mask, **extra), slots)
        return self.answer_states(states, slots, token_mask)

    def mix_groups(self, x: Tensor, token_mask: Tensor | None = None, **extra: Tensor) -> tuple[Tensor, Tensor | None]:
        """Groups (b n l) -> their mixtures (b p+l d), and where any instance of the group has a token (b p+l)."""
        if suits_cpu_mixing(self.backbone, self.multiplexer, x):
            return mix_on_cpu(self, x, token_mask, extra)
        return self.embed_and_mix(x, token_mask, extra)

    def embed_and_mix(
        self, x: Tensor, token_mask: Tensor | None, extra: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        """The definition of mixing. `mix_on_cpu` computes the same with less memory."""
        vectors = self.backbone.embed(x, token_mask, **extra)
        vectors, mask = self.demultiplexer.add_prefix(vectors, token_mask)
        return self.multiplexer(vectors, mask), mask.any(1) if mask is not None and mask.dim() == 3 else None

    def answer_states(self, states: Tensor, slots: int, token_mask: Tensor | None) -> Tensor:
        """Take `slots` instances out of the network's output (b p+l d) and ask the head about each: (b n ...)."""
        reads: Reads = "all" if self.head is None else self.head.reads  # type: ignore[assignment]
        z: Tensor = self.demultiplexer(states, slots, reads, token_mask)
        return z if self.head is None else self.head(z)


def _group_mask(x: Tensor, mask: Tensor | None, grouping: Grouping) -> Tensor | None:
    """The token mask of each group (b n l), or (b n) for rows without tokens; None if every slot is full."""
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
