"""Steps of SGD on the squared error for the paper's CNN, each one call of C++: torch's own time for one, on networks as
small as these, is mostly spent between its operations.

    mixture (g c*400), labels (g*n) -> every weight after the multiplexer changes; the mixture's gradient (g c*400)

The same numbers as torch's, to rounding. Knows layouts and sizes; the arithmetic is in `step.cpp`.
"""

import ctypes

import torch
from torch import Tensor

from datamux.native.build import check_weights, loaded, pointer
from datamux.native.layer import LANES, fits

SIZES = ("blocks", "maps", "slots", "hidden", "out", "classes")
LAYERS = ("first", "second", "third", "fourth", "slots", "readout")


class _Network(ctypes.Structure):
    """As in `step.cpp`."""

    _fields_ = [*((name, ctypes.c_int) for name in SIZES), ("rate", ctypes.c_float)]


class _Weights(ctypes.Structure):
    """As in `step.cpp`."""

    _fields_ = [(name + end, ctypes.c_void_p) for name in LAYERS for end in ("", "_bias")]


class Steps:
    """`weights`: what is learned, by the names in LAYERS and with "_bias"; slots' are (n d e), all others as torch's.

    They are held apart while steps are made: `keep` puts them back.
    """

    def __init__(self, weights: dict[str, Tensor], rate: float) -> None:
        check_weights(weights, _shapes(weights))
        self.theirs = weights
        self.ours = {
            name: theirs.detach().clone(memory_format=torch.contiguous_format) for name, theirs in weights.items()
        }
        self.pointers = _Weights(**{name: pointer(ours) for name, ours in self.ours.items()})
        slots, hidden, out = weights["slots"].shape
        classes, maps = len(weights["readout"]), weights["first"].shape[1]
        self.network = _Network(0, maps, slots, hidden, out, classes, rate)

    def __call__(self, mixture: Tensor, labels: Tensor, *, backward: bool) -> Tensor | None:
        """One step. With `backward`, returns the gradient of the mixture."""
        n = self.network
        if not fits(mixture) or mixture.shape[1] != n.maps * 400 or labels.shape != (len(mixture) * n.slots,):
            raise ValueError(
                f"expected mixtures of {n.maps * 400} numbers in eights and {n.slots} labels each, got "
                f"{tuple(mixture.shape)} and {tuple(labels.shape)}"
            )
        n.blocks = len(mixture) // LANES
        mixture, labels = mixture.contiguous(), labels.long().contiguous()
        grad = torch.empty_like(mixture) if backward else None
        loaded().digits_step(
            ctypes.byref(n), ctypes.byref(self.pointers), pointer(mixture), pointer(labels), pointer(grad)
        )
        return grad

    def keep(self) -> None:
        for name, theirs in self.theirs.items():
            theirs.data.copy_(self.ours[name])


def _shapes(weights: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """What they must be: what `step.cpp` takes for granted, and what fits together."""
    slots, hidden, out = weights["slots"].shape
    classes, maps = len(weights["readout"]), weights["first"].shape[1]
    shapes: dict[str, tuple[int, ...]] = {
        "first": (10, maps, 3, 3),
        "second": (16, 10, 4, 4),
        "third": (120, 144),
        "fourth": (hidden, 120),
        "readout": (classes, out),
    }
    biases = {f"{name}_bias": shape[:1] for name, shape in shapes.items()}
    return {**shapes, **biases, "slots": (slots, hidden, out), "slots_bias": (slots, out)}
