"""Maps made smaller (or larger) by means over windows, in the layout of native layers: (b/8 c h h 8) -> (b/8 c s s 8).

As torch's `adaptive_avg_pool2d`; the arithmetic is in `shrink.cpp`.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor

from datamux.native.build import loaded, pointer
from datamux.native.layer import LANES


class _Windows(ctypes.Structure):
    """As in `shrink.cpp`."""

    _fields_ = [(name, ctypes.c_int) for name in ("maps", "side", "size")]


def shrink_blocked(maps: Tensor, size: int) -> Tensor:
    blocks, count, side, other, lanes = maps.shape
    if lanes != LANES or side != other or maps.dtype != torch.float32 or size < 1:
        raise ValueError(
            f"expected square maps in blocks of {LANES} in single precision and a size of at least 1, got "
            f"{tuple(maps.shape)} {maps.dtype} and {size}"
        )
    if size == side:
        return maps
    made: Tensor = _Shrink.apply(maps, _Windows(blocks * count, side, size))  # type: ignore[no-untyped-call]
    return made


class _Shrink(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, windows: _Windows) -> Tensor:
        ctx.windows, ctx.shape = windows, maps.shape
        maps = maps.contiguous()
        out = maps.new_empty(*maps.shape[:2], windows.size, windows.size, LANES)
        loaded().shrink_forward(ctypes.byref(windows), pointer(maps), pointer(out))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = grads[0].contiguous()
        found = grad.new_empty(ctx.shape)
        loaded().shrink_backward(ctypes.byref(ctx.windows), pointer(grad), pointer(found))
        return found, None
