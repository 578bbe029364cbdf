"""Does an answer come from the mixture? Give each instance what was taken out for its neighbour, and score again.

A model that lives on its mixtures falls to chance. One whose score stays reads something else: a bypass.
"""

from typing import Any

from torch import Tensor

from datamux.inference.runtime import Runtime


def swap_instances(runtime: Runtime) -> None:
    """From now on every instance of a group gets its neighbour's part; what goes past the mixture stays its own."""
    mux = getattr(getattr(runtime, "model", None), "mux", None)
    if mux is None or runtime.num_instances == 1:
        raise ValueError("only a multiplexed model of ours can be swapped, not a plain or an exported one")
    mux.demultiplexer.register_forward_hook(_neighbours)


def _neighbours(module: Any, given: Any, z: Tensor) -> Tensor:
    return z.roll(1, dims=1)  # b n r d
