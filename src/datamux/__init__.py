"""datamux: one forward pass, up to N answers.

Names are loaded when they are first used, so that `import datamux` costs nothing. See `__all__` for what there is.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from datamux.registration import register_when_needed

if TYPE_CHECKING:
    from datamux.demultiplexers import DEMULTIPLEXERS, Demultiplexer, build_demultiplexer
    from datamux.hub import (
        MuxConfig,
        MuxForRetrieval,
        MuxForSequenceClassification,
        MuxForTokenClassification,
        multiplex,
    )
    from datamux.inference.predictor import Predictor, load
    from datamux.model import Multiplexed
    from datamux.multiplexers import MULTIPLEXERS, Multiplexer, build_multiplexer

__version__ = "0.1.0"

_HOME = {
    "DEMULTIPLEXERS": "demultiplexers",
    "Demultiplexer": "demultiplexers",
    "MULTIPLEXERS": "multiplexers",
    "Multiplexed": "model",
    "Multiplexer": "multiplexers",
    "MuxConfig": "hub",
    "MuxForRetrieval": "hub",
    "MuxForSequenceClassification": "hub",
    "MuxForTokenClassification": "hub",
    "Predictor": "inference.predictor",
    "build_demultiplexer": "demultiplexers",
    "build_multiplexer": "multiplexers",
    "load": "inference.predictor",
    "multiplex": "hub",
}

__all__ = [
    "DEMULTIPLEXERS",
    "MULTIPLEXERS",
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
    "multiplex",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'datamux' has no attribute {name!r}")
    return getattr(import_module(f"datamux.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


register_when_needed()
