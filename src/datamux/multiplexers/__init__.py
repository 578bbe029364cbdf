"""Multiplexers, one family a file. A new one is one file and one line in `MULTIPLEXERS`."""

from collections.abc import Callable
from functools import partial

from datamux.multiplexers.base import Multiplexer
from datamux.multiplexers.contextual import Contextual
from datamux.multiplexers.hadamard import Hadamard
from datamux.multiplexers.identity import Identity
from datamux.multiplexers.low_rank import LowRank
from datamux.multiplexers.ortho import Ortho
from datamux.registry import build

MULTIPLEXERS: dict[str, Callable[..., Multiplexer]] = {
    "identity": Identity,
    "gaussian_hadamard": Hadamard,
    "learned_hadamard": partial(Hadamard, learned=True),
    "binary": partial(Hadamard, kind="binary"),
    "sign": partial(Hadamard, kind="sign"),
    "ortho": Ortho,
    "low_rank": LowRank,
    "contextual": Contextual,
}


def build_multiplexer(name: str, num_instances: int, dim: int, **options: object) -> Multiplexer:
    """The multiplexer called `name`; `options` go to its class."""
    return build("multiplexer", MULTIPLEXERS, name, num_instances=num_instances, dim=dim, **options)


__all__ = ["MULTIPLEXERS", "Multiplexer", "build_multiplexer"]
