"""Demultiplexers, one family per file. A new one is one file and one line in `DEMULTIPLEXERS`."""

from collections.abc import Callable

from datamux.demultiplexers.base import Demultiplexer
from datamux.demultiplexers.deep import DeepKeyDemultiplexer
from datamux.demultiplexers.gate import GateDemultiplexer
from datamux.demultiplexers.identity import IdentityDemultiplexer
from datamux.demultiplexers.index import IndexDemultiplexer
from datamux.demultiplexers.key import KeyDemultiplexer
from datamux.demultiplexers.mlp import MlpDemultiplexer
from datamux.demultiplexers.reversible import ReversibleDemultiplexer
from datamux.registry import build

DEMULTIPLEXERS: dict[str, Callable[..., Demultiplexer]] = {
    "identity": IdentityDemultiplexer,
    "mlp": MlpDemultiplexer,
    "index": IndexDemultiplexer,
    "key": KeyDemultiplexer,
    "deep_key": DeepKeyDemultiplexer,
    "gate": GateDemultiplexer,
    "reversible": ReversibleDemultiplexer,
}


def build_demultiplexer(name: str, num_instances: int, dim: int, **options: object) -> Demultiplexer:
    """The demultiplexer called `name`; `options` go to its class."""
    return build("demultiplexer", DEMULTIPLEXERS, name, num_instances=num_instances, dim=dim, **options)


__all__ = ["DEMULTIPLEXERS", "Demultiplexer", "build_demultiplexer"]
