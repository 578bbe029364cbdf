"""Which rows share a pass: similar lengths together, so that little is padding. Pure arithmetic: knows no model."""

from collections.abc import Callable, Sequence


def plan_passes(lengths: Sequence[int], group_size: int, fits: Callable[[int], int]) -> list[list[int]]:
    """Row numbers of each pass, the longest rows first; consecutive rows of a pass share a group.

    `fits(tokens)` says how many groups of that length one pass may hold; one group always does.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    passes = []
    start = 0
    while start < len(order):
        rows = max(1, fits(lengths[order[start]])) * group_size
        passes.append(order[start : start + rows])
        start += rows
    return passes
