"""The paper's nonlinear multiplexer, all slots in one call.

    images (g n side side) -> sum over slots of tanh(conv(tanh(conv(image)))), (g c side side)

The same numbers as torch's, to rounding. Knows layouts and sizes; the arithmetic is in `nonlinear.cpp`.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor

from datamux.native.build import check_weights, loaded, pointer
from datamux.native.layer import LANES, fits

SIZES = ("blocks", "slots", "kernels", "maps", "side")


class _Slots(ctypes.Structure):
    """As in `nonlinear.cpp`."""

    _fields_ = [(name, ctypes.c_int) for name in SIZES]


def nonlinear(
    images: Tensor, first: Tensor, first_bias: Tensor | None, second: Tensor, second_bias: Tensor | None
) -> Tensor:
    """`first` is (n k 1 3 3), `second` (n c k 3 3), biases (n k) and (n c). Images get no gradient."""
    mixture: Tensor = _Nonlinear.apply(images, first, first_bias, second, second_bias)  # type: ignore[no-untyped-call]
    return mixture


class _Nonlinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, images: Tensor, first: Tensor, first_bias: Tensor | None, second: Tensor, second_bias: Tensor | None
    ) -> Tensor:
        sizes = _sizes(images, first, first_bias, second, second_bias)
        images, first, second = images.contiguous(), first.contiguous(), second.contiguous()
        biases = [None if bias is None else bias.contiguous() for bias in (first_bias, second_bias)]
        b, n, k, c, side = (getattr(sizes, name) for name in SIZES)
        mixture = images.new_empty(b * LANES, c, side, side)
        frames = images.new_empty(n, b, side + 2, side + 2, LANES)
        inner = images.new_empty(n, b, k, side + 2, side + 2, LANES)
        outer = images.new_empty(n, b, c, side, side, LANES)
        given = (images, first, biases[0], second, biases[1])
        _call("nonlinear_forward", sizes, *given, mixture, frames, inner, outer)
        ctx.sizes = sizes
        ctx.save_for_backward(first, second, frames, inner, outer)
        return mixture

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.needs_input_grad[0]:
            raise ValueError("native nonlinear multiplexing gives images no gradient")
        first, second, *kept = ctx.saved_tensors
        turned = second.transpose(1, 2).flip(-2, -1).contiguous()
        of_first, of_second = torch.empty_like(first), torch.empty_like(second)
        of_first_bias = first.new_empty(first.shape[:2]) if ctx.needs_input_grad[2] else None
        of_second_bias = second.new_empty(second.shape[:2]) if ctx.needs_input_grad[4] else None
        found = (of_first, of_first_bias, of_second, of_second_bias)
        _call("nonlinear_backward", ctx.sizes, turned, *kept, grads[0].contiguous(), *found)
        return None, *found


def _sizes(
    images: Tensor, first: Tensor, first_bias: Tensor | None, second: Tensor, second_bias: Tensor | None
) -> _Slots:
    """Checked: C++ does not look."""
    groups, slots, side, other = images.shape
    kernels, maps = first.shape[1], second.shape[1]
    if not fits(images) or side != other:
        raise ValueError(f"expected square images in groups of {LANES} in single precision, got {tuple(images.shape)}")
    check_weights(
        {"first": first, "first_bias": first_bias, "second": second, "second_bias": second_bias},
        {
            "first": (slots, kernels, 1, 3, 3),
            "first_bias": (slots, kernels),
            "second": (slots, maps, kernels, 3, 3),
            "second_bias": (slots, maps),
        },
    )
    return _Slots(groups // LANES, slots, kernels, maps, side)


def _call(name: str, sizes: _Slots, *tensors: Tensor | None) -> None:
    getattr(loaded(), name)(ctypes.byref(sizes), *(pointer(tensor) for tensor in tensors))
