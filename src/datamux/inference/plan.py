"""Which rows share a pass: rows of similar length, so that there is little padding. It knows no model."""

from collections.abc import Callable, Sequence

OVERHEAD = 128  # starting one more pass takes as long as running this many positions


def plan_passes(lengths: Sequence[int], group_size: int, fits: Callable[[int], int]) -> list[list[int]]:
    """The row numbers of each pass, the longest rows first; consecutive rows of a pass share a group.

    `fits(tokens)` says how many groups of that length may share a pass; a pass has at least one group. All groups of a
    pass are padded to the length of the first one, so a pass ends early where starting another one costs less.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    longest = [lengths[row] for row in order[::group_size]]  # of each group
    passes = []
    start = 0
    while start < len(longest):
        end = _best_end(longest, start, min(len(longest), start + max(1, fits(longest[start]))))
        passes.append(order[start * group_size : end * group_size])
        start = end
    return passes


def _best_end(longest: Sequence[int], start: int, end: int) -> int:
    """Where a pass that begins at group `start` should end; `end` at the latest."""
    while end - start > 1:
        saved, cut = max(((longest[start] - longest[g]) * (end - g), g) for g in range(start + 1, end))
        if saved <= OVERHEAD:
            break
        end = cut
    return end
