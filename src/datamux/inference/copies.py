"""Finds equal texts, so that one row answers all of them.

There is no list per text, because Python's garbage collector would then take longer than everything else.
"""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = list[NDArray[np.int64]]


def without_copies(texts: list[Any]) -> tuple[list[Any], Places | None]:
    """Each different text once, in order of first appearance; and the places of each, or None if no text has a copy."""
    number: dict[Hashable, int] = {}
    which = np.fromiter((number.setdefault(_key(text), len(number)) for text in texts), np.int64, len(texts))
    if len(number) == len(texts):
        return texts, None
    _, first = np.unique(which, return_index=True)
    ends = np.bincount(which).cumsum()
    return [texts[place] for place in first], np.split(which.argsort(kind="stable"), ends[:-1])


def _key(text: str | tuple[str, str] | list[str]) -> Hashable:
    return text if isinstance(text, str) else tuple(text)
