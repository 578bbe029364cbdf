"""How to say what is wrong: a value that is not allowed, with the nearest name that is, or a missing extra."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any


def unknown_name(kind: str, name: object, allowed: Iterable[str]) -> ValueError:
    names = sorted(allowed)
    near = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(f"unknown {kind} {name!r}; allowed: {', '.join(names)}.{hint}")


def reason(error: Exception) -> str:
    """One line that says what went wrong."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def check_choice(kind: str, value: object, allowed: Iterable[str]) -> None:
    """Raise unless `value` is one of `allowed` (for a `Literal` type: `get_args` of it)."""
    names = tuple(allowed)
    if value not in names:
        raise unknown_name(kind, value, names)


def check_at_least_one(what: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{what} must be a whole number of at least 1, got {value!r}")


def check_divisible(name: str, dim: int, num_instances: int) -> int:
    """How many dimensions each slot gets, for methods that cut `dim` into equal parts."""
    if dim % num_instances:
        allowed = [n for n in range(1, dim + 1) if dim % n == 0]
        raise ValueError(
            f"{name} cuts the {dim} dimensions into num_instances equal parts, and {num_instances} does not divide "
            f"{dim}; allowed: {', '.join(map(str, allowed))}"
        )
    return dim // num_instances


def import_extra(module: str, need: str, extra: str) -> Any:
    """A module of an extra. If it is missing, the error says what needs it and how to install the extra."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{need}: pip install 'datamux[{extra}]'") from error
