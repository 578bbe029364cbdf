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


def padding_share(lengths: Sequence[int], passes: Sequence[Sequence[int]], group_size: int) -> float:
    """Of the positions that the network runs, the share where not even one instance of the group has a token."""
    run = used = 0
    for rows in passes:
        groups = [rows[start : start + group_size] for start in range(0, len(rows), group_size)]
        longest = [max(lengths[row] for row in group) for group in groups]
        run += len(groups) * max(longest)
        used += sum(longest)
    return 1 - used / max(1, run)
