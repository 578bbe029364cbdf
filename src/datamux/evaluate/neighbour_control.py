"""A control: does a model's answer come from the mixture?

Each instance is answered from what was taken out for its neighbour, and the model is scored again. The score of a
model that reads its own part of the mixture falls to chance.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from datamux.inference.runtime import Runtime


@contextmanager
def answered_from_neighbour(runtime: Runtime) -> Iterator[None]:
    """While this lasts, every instance of a group is answered from its neighbour's part of the mixture."""
    mux = getattr(getattr(runtime, "model", None), "mux", None)
    if mux is None or runtime.num_instances == 1:
        raise ValueError(
            "answering from the neighbour needs a multiplexed model with several slots, not a plain or an exported one"
        )
    hook = mux.demultiplexer.register_forward_hook(_neighbours)
    try:
        yield
    finally:
        hook.remove()


def _neighbours(module: Any, given: Any, z: Tensor) -> Tensor:
    return z.roll(1, dims=1)  # b n r d
