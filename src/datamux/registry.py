"""Build something by its name from a literal dict, with clear errors for a wrong name or a wrong option."""

import inspect
from collections.abc import Callable, Mapping
from typing import TypeVar

from datamux.errors import unknown_name

T = TypeVar("T")


def build(kind: str, table: Mapping[str, Callable[..., T]], name: str, **arguments: object) -> T:
    """`table[name](**arguments)`; an argument that it does not take is a `ValueError` that lists those it does."""
    if name not in table:
        raise unknown_name(kind, name, table)
    allowed = inspect.signature(table[name]).parameters
    for argument in arguments:
        if argument not in allowed:
            raise unknown_name(f"option of the {kind} {name!r}:", argument, allowed)
    return table[name](**arguments)


def summary(factory: Callable[..., object]) -> str:
    """The first sentence of the file that defines what `factory` (a class or a partial of one) builds."""
    target = getattr(factory, "func", factory)
    module = inspect.getmodule(target)
    return (inspect.getdoc(module) or "").split("\n")[0]


def settings(factory: Callable[..., object]) -> str:
    """What a partial sets, as text: "learned=True"; empty for a plain class."""
    keywords: dict[str, object] = getattr(factory, "keywords", {})
    return ", ".join(f"{name}={value!r}" for name, value in keywords.items())
