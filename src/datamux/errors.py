"""One way to say that a value is not allowed: the value, what is allowed, the nearest allowed name."""

from collections.abc import Iterable
from difflib import get_close_matches


def unknown_name(kind: str, name: object, allowed: Iterable[str]) -> ValueError:
    names = sorted(allowed)
    near = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(f"unknown {kind} {name!r}; allowed: {', '.join(names)}.{hint}")


def check_choice(kind: str, value: object, allowed: Iterable[str]) -> None:
    """Raise unless `value` is one of `allowed` (for a `Literal` type: `get_args` of it)."""
    names = tuple(allowed)
    if value not in names:
        raise unknown_name(kind, value, names)


def check_at_least_one(what: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{what} must be a whole number of at least 1, got {value!r}")
