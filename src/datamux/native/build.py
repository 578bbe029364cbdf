"""Compiles the C++ beside it for this processor, once, and loads it. None where that cannot be done.

The library is kept in the user's cache folder under a name made from the source and the processor.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

SOURCES = sorted(Path(__file__).parent.glob("*.cpp"))
HEADERS = sorted(Path(__file__).parent.glob("*.h"))
FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled library; None where there is no compiler, or where it cannot compile this for the processor."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    try:
        compiler = _compiler()
        return ctypes.CDLL(str(_compiled(compiler))) if compiler else None
    except (OSError, ValueError, subprocess.SubprocessError):  # ValueError: a quote in CXX that is never closed
        return None


def loaded() -> ctypes.CDLL:
    found = library()
    if found is None:
        raise RuntimeError("native layers need a C++ compiler; without one, leave them switched off")
    return found


def pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    """To the numbers of a contiguous tensor, which somebody must hold on to; null for none."""
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def check_weights(weights: Mapping[str, Tensor | None], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """That all can be handed to C++, which does not look: numbers of single precision on the CPU, in these shapes."""
    for name, shape in shapes.items():
        weight = weights[name]
        if weight is None:
            continue
        if tuple(weight.shape) != shape:
            raise ValueError(f"{name} must be {shape}, got {tuple(weight.shape)}")
        if weight.dtype != torch.float32 or weight.device.type != "cpu":
            raise ValueError(f"{name} must be of single precision on the CPU, got {weight.dtype} on {weight.device}")


def _compiler() -> list[str]:
    """A program, or as `CXX` may be, one with arguments: "ccache g++". Empty where there is none."""
    named = os.environ.get("CXX", "")
    program = shutil.which(named) if named else shutil.which("c++") or shutil.which("g++")
    return [program] if program else shlex.split(named)


def _compiled(compiler: list[str]) -> Path:
    texts = [file.read_text() for file in (*HEADERS, *SOURCES)]
    made_of = "\0".join((*texts, *compiler, *FLAGS, _processor()))
    file = _folder() / f"native-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.so"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            part = Path(folder, file.name)
            subprocess.run([*compiler, *FLAGS, "-o", part, *SOURCES], check=True, capture_output=True)
            part.replace(file)  # at once: another process may be about to load it
    return file


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "datamux"


def _processor() -> str:
    """What tells processors apart: a library made for one may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))
