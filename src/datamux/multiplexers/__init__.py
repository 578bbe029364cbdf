"""Multiplexers, one family per file. A new one is one file and one line in `MULTIPLEXERS`.

Those in `for_images` take only square images, because they use which pixels are neighbours. Their dict is
`IMAGE_MULTIPLEXERS`.
"""

from collections.abc import Callable
from functools import partial

from datamux.multiplexers.base import Multiplexer
from datamux.multiplexers.circular import Circular
from datamux.multiplexers.contextual import Contextual
from datamux.multiplexers.for_images import IMAGE_MULTIPLEXERS
from datamux.multiplexers.hadamard import Hadamard
from datamux.multiplexers.identity import Identity
from datamux.multiplexers.low_rank import LowRank
from datamux.multiplexers.ortho import Ortho
from datamux.multiplexers.reversible import Reversible
from datamux.registry import build

MULTIPLEXERS: dict[str, Callable[..., Multiplexer]] = {
    "identity": Identity,
    "gaussian_hadamard": Hadamard,
    "learned_hadamard": partial(Hadamard, learned=True),
    "binary": partial(Hadamard, kind="binary"),
    "sign": partial(Hadamard, kind="sign"),
    "near_one": partial(Hadamard, kind="near_one", learned=True),
    "ortho": Ortho,
    "learned_ortho": partial(Ortho, learned=True),
    "low_rank": LowRank,
    "circular": Circular,
    "learned_circular": partial(Circular, learned=True),
    "contextual": Contextual,
    "reversible": Reversible,
}


def build_multiplexer(name: str, num_instances: int, dim: int, **options: object) -> Multiplexer:
    """The multiplexer called `name`; `options` go to its class."""
    known = MULTIPLEXERS | IMAGE_MULTIPLEXERS
    return build("multiplexer", known, name, num_instances=num_instances, dim=dim, **options)


__all__ = ["IMAGE_MULTIPLEXERS", "MULTIPLEXERS", "Multiplexer", "build_multiplexer"]
