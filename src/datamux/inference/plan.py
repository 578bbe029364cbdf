"""Which rows share a pass: similar lengths together, so that little is padding. Pure arithmetic: knows no model."""

from collections.abc import Callable, Sequence

OVERHEAD = 128  # positions that could be run in the time which starting one more pass takes


def plan_passes(lengths: Sequence[int], group_size: int, fits: Callable[[int], int]) -> list[list[int]]:
    """Row numbers of each pass, the longest rows first; consecutive rows of a pass share a group.

    `fits(tokens)` says how many groups of that length one pass may hold; one group always does. All groups of a pass
    are as long as its first, so a pass ends early where starting another costs less than the padding.
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
    """Where a pass from group `start` to at most `end` had better stop."""
    while end - start > 1:
        saved, cut = max(((longest[start] - longest[g]) * (end - g), g) for g in range(start + 1, end))
        if saved <= OVERHEAD:
            break
        end = cut
    return end
