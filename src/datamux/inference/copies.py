"""Equal texts: one row for all of them. No list a text: Python's search for garbage would cost more than the rest."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = list[NDArray[np.int64]]


def without_copies(texts: list[Any]) -> tuple[list[Any], Places | None]:
    """Each different text once, in the order in which they first come; and where each stands, if any stands twice."""
    number: dict[Hashable, int] = {}
    which = np.fromiter((number.setdefault(_key(text), len(number)) for text in texts), np.int64, len(texts))
    if len(number) == len(texts):
        return texts, None
    _, first = np.unique(which, return_index=True)
    ends = np.bincount(which).cumsum()
    return [texts[place] for place in first], np.split(which.argsort(kind="stable"), ends[:-1])


def _key(text: str | tuple[str, str] | list[str]) -> Hashable:
    return text if isinstance(text, str) else tuple(text)
