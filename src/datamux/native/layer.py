"""A convolution with what follows it, on eight instances at a time, for networks too small for torch's own to be quick.

    blocked     (b c h w) -> (b/8 c h w 8)
    layer       (b/8 c h w 8) -> (b/8 o h' w' 8): conv2d, then the largest of each 2x2 if `pool`, then tanh if `squash`

The same numbers as torch's, to rounding. Knows layouts and sizes; the arithmetic is in `layer.cpp`.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor, nn

from datamux.native.build import library, loaded, pointer

LANES = 8  # instances side by side
KERNELS = (3, 4, 5)
SIZES = (
    *("blocks", "in_maps", "height", "width", "out_maps"),
    *("kernel", "padding", "stride", "pool", "tanh"),
)


class _Shape(ctypes.Structure):
    """As in `layer.cpp`."""

    _fields_ = [(name, ctypes.c_int) for name in SIZES]


def switch(model: nn.Module, on: bool) -> bool:
    """Let those parts of `model` that can (they have an attribute `native`) use these layers, or torch's own again.

    Returns whether any part uses them now.
    """
    able = [part for part in model.modules() if hasattr(part, "native")] if library() is not None else []
    for part in able:
        part.native = on  # type: ignore[assignment]
    return on and bool(able)


def fits(images: Tensor) -> bool:
    """Whether these can be the instances of native layers: rows of single precision in blocks of eight, on the CPU."""
    return images.dtype == torch.float32 and images.device.type == "cpu" and len(images) % LANES == 0


def blocked(images: Tensor) -> Tensor:
    b, *rest = images.shape
    return images.reshape(b // LANES, LANES, *rest).movedim(1, -1).contiguous()


def unblocked(maps: Tensor) -> Tensor:
    return maps.movedim(-1, 1).flatten(0, 1)


def layer(
    maps: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    padding: int = 0,
    stride: int = 1,
    pool: bool = False,
    squash: bool = True,
) -> Tensor:
    """`weight` is (o c k k), as conv2d's; `bias` (o)."""
    made: Tensor = _Layer.apply(maps, weight, bias, padding, stride, pool, squash)  # type: ignore[no-untyped-call]
    return made


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        maps: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        padding: int,
        stride: int,
        pool: bool,
        squash: bool,
    ) -> Tensor:
        shape = _shape(maps, weight, padding, stride, pool, squash)
        maps, weight, bias = maps.contiguous(), weight.contiguous(), None if bias is None else bias.contiguous()
        height = (shape.height + 2 * padding - shape.kernel) // stride + 1
        width = (shape.width + 2 * padding - shape.kernel) // stride + 1
        kept = (shape.blocks, len(weight), height // (1 + pool), width // (1 + pool), LANES)
        out = maps.new_empty(kept)
        where = maps.new_empty(kept, dtype=torch.int32) if pool else None
        _call("layer_forward", shape, maps, weight, bias, out, where)
        ctx.shape = shape
        ctx.save_for_backward(maps, weight, out, where)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        maps, weight, out, where = ctx.saved_tensors
        shape, (of_maps, _, of_bias) = ctx.shape, ctx.needs_input_grad[:3]
        if of_maps and shape.stride != 1:
            raise ValueError(f"the gradient of the input needs a stride of 1, got {shape.stride}")
        grad_maps = torch.empty_like(maps) if of_maps else None
        grad_weight = torch.empty_like(weight)
        grad_bias = weight.new_empty(len(weight)) if of_bias else None
        turned = weight.transpose(0, 1).flip(-2, -1).contiguous() if of_maps else None
        grad = grads[0].contiguous()
        _call("layer_backward", shape, maps, turned, out, where, grad, grad_maps, grad_weight, grad_bias)
        return grad_maps, grad_weight, grad_bias, None, None, None, None, None


def _shape(maps: Tensor, weight: Tensor, padding: int, stride: int, pool: bool, squash: bool) -> _Shape:
    """The sizes, checked: C++ does not look."""
    blocks, in_maps, height, width, lanes = maps.shape
    out_maps, depth, kernel, other = weight.shape
    if lanes != LANES or maps.dtype != torch.float32 or weight.dtype != torch.float32:
        raise ValueError(
            f"expected maps in blocks of {LANES} in single precision, got {tuple(maps.shape)} {maps.dtype}"
        )
    if kernel != other or kernel not in KERNELS or not 0 <= padding < kernel:
        raise ValueError(
            f"kernels must be square, of {KERNELS}, and larger than the padding, got {tuple(weight.shape)}"
        )
    if in_maps != depth:
        raise ValueError(f"kernels {tuple(weight.shape)} do not fit {in_maps} maps")
    if min(height, width) + 2 * padding < kernel:
        raise ValueError(f"kernels of {kernel} do not fit into maps of {height}x{width} with a padding of {padding}")
    return _Shape(blocks, in_maps, height, width, out_maps, kernel, padding, stride, int(pool), int(squash))


def _call(name: str, shape: _Shape, *tensors: Tensor | None) -> None:
    getattr(loaded(), name)(ctypes.byref(shape), *(pointer(tensor) for tensor in tensors))
