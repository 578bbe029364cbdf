"""datamux: one forward pass, up to N answers.

Names are loaded when they are first used, so that `import datamux` is quick. `__all__` lists them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from datamux.registration import register_when_needed

if TYPE_CHECKING:
    from datamux.client import Client
    from datamux.demultiplexers import DEMULTIPLEXERS, Demultiplexer, build_demultiplexer
    from datamux.hub import (
        MuxConfig,
        MuxForRetrieval,
        MuxForSequenceClassification,
        MuxForTokenClassification,
        multiplex,
    )
    from datamux.hub.loading import load_published
    from datamux.inference.predictor import Predictor, load
    from datamux.model import Multiplexed
    from datamux.multiplexers import MULTIPLEXERS, Multiplexer, build_multiplexer
    from datamux.tuning.run import tune

__version__ = "0.1.0"

_HOMES = {  # where each name is defined
    "client": ("Client",),
    "demultiplexers": ("DEMULTIPLEXERS", "Demultiplexer", "build_demultiplexer"),
    "hub": ("MuxConfig", "MuxForRetrieval", "MuxForSequenceClassification", "MuxForTokenClassification", "multiplex"),
    "hub.loading": ("load_published",),
    "inference.predictor": ("Predictor", "load"),
    "model": ("Multiplexed",),
    "tuning.run": ("tune",),
    "multiplexers": ("MULTIPLEXERS", "Multiplexer", "build_multiplexer"),
}

__all__ = [
    "DEMULTIPLEXERS",
    "MULTIPLEXERS",
    "Client",
    "Demultiplexer",
    "Multiplexed",
    "Multiplexer",
    "MuxConfig",
    "MuxForRetrieval",
    "MuxForSequenceClassification",
    "MuxForTokenClassification",
    "Predictor",
    "build_demultiplexer",
    "build_multiplexer",
    "load",
    "load_published",
    "multiplex",
    "tune",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"datamux.{home}"), name)
    raise AttributeError(f"module 'datamux' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


register_when_needed()
