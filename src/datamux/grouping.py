"""Flat rows to groups and back.

Consecutive rows share a group, so whoever orders the rows decides who stands next to whom:
row r sits in group r // k, in slot r % k. This file knows tensors, and no model.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from datamux.errors import check_at_least_one, check_choice

Filler = Literal["nothing", "repeat"]


class Grouping:
    """How `rows` flat rows sit in groups of `group_size`, in a model with `capacity` slots.

    With filler "nothing" a group has `group_size` slots, and those without a row stay empty.
    With filler "repeat" it has all `capacity` slots. The spare slots hold rows of the same group again, and `ungroup`
    averages the answers for the same row.
    """

    def __init__(self, rows: int, group_size: int, capacity: int, filler: Filler = "nothing") -> None:
        check_group_size(group_size, capacity)
        check_choice("filler", filler, get_args(Filler))
        self.rows = rows
        self.group_size = group_size
        self.repeat = filler == "repeat"
        self.slots = capacity if self.repeat else group_size
        # Without any row there is still one group, an empty one, because encoders do not take an empty batch.
        self.groups = max(1, (rows + group_size - 1) // group_size)

    @property
    def full(self) -> bool:
        """Whether every slot holds a row."""
        return self.rows > 0 if self.repeat else self.rows == self.groups * self.group_size

    def group(self, x: Tensor) -> Tensor:
        """(i ...) -> (b n ...); an empty slot holds zeros."""
        if self.repeat and self.rows > 0:
            return x[self._row_of_slot(x.device)]
        if not self.full:
            empty = self.groups * self.slots - self.rows
            x = torch.cat([x, x.new_zeros(empty, *x.shape[1:])])
        return x.view(self.groups, self.slots, *x.shape[1:])

    def ungroup(self, x: Tensor) -> Tensor:
        """(b n ...) -> (i ...), in the order in which the rows came; repeats of a row are averaged."""
        flat = x.flatten(0, 1)
        if not self.repeat:
            return flat[: self.rows]
        row = self._row_of_slot(x.device).flatten()
        total = flat.new_zeros(self.rows, *flat.shape[1:]).index_add(0, row, flat[: len(row)])
        times = torch.bincount(row, minlength=self.rows)
        return total / times.view(-1, *[1] * (flat.dim() - 1)).to(flat.dtype)

    def occupied(self, device: torch.device) -> Tensor:
        """(b n) True where a slot holds a row."""
        return self.group(torch.ones(self.rows, dtype=torch.bool, device=device))

    def _row_of_slot(self, device: torch.device) -> Tensor:
        """(b n) which row each slot holds when repeats fill the spare slots."""
        if self.rows == 0:
            return torch.zeros(0, dtype=torch.long, device=device)
        first = torch.arange(self.groups, device=device)[:, None] * self.group_size
        members = (self.rows - first).clamp(max=self.group_size)
        return first + torch.arange(self.slots, device=device) % members


def in_lone_groups(occupied: Tensor, group_size: int) -> Tensor:
    """(i) True for the rows of groups in which only one of the rows is `occupied` (i)."""
    group = torch.arange(len(occupied), device=occupied.device) // group_size
    return torch.bincount(group, occupied.float())[group] == 1


def check_group_size(group_size: int, capacity: int) -> None:
    check_at_least_one("group_size", group_size)
    if group_size > capacity:
        raise ValueError(
            f"group_size {group_size} is more than the model's {capacity} slots; "
            f"choose 1 to {capacity}, or build the model with a larger num_instances"
        )
