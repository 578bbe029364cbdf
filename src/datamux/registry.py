"""Build something by its name from a literal dict, with clear errors for a wrong name or a wrong option."""

import inspect
from collections.abc import Callable, Mapping
from typing import TypeVar

from datamux.errors import check_choice

T = TypeVar("T")


def build(kind: str, table: Mapping[str, Callable[..., T]], name: str, **arguments: object) -> T:
    """`table[name](**arguments)`. For an argument that it does not take, a `ValueError` lists the allowed ones."""
    check_choice(kind, name, table)
    allowed = inspect.signature(table[name]).parameters
    for argument in arguments:
        check_choice(f"option of the {kind} {name!r}:", argument, allowed)
    return table[name](**arguments)


def takes(factory: Callable[..., object], option: str) -> bool:
    """Whether what `factory` builds has this option."""
    return option in inspect.signature(factory).parameters


def summary(factory: Callable[..., object]) -> str:
    """The first sentence of the file that defines what `factory` (a class or a partial of one) builds."""
    target = getattr(factory, "func", factory)
    module = inspect.getmodule(target)
    return (inspect.getdoc(module) or "").split("\n")[0]


def settings(factory: Callable[..., object]) -> str:
    """What a partial sets, as text: "learned=True"; empty for a plain class."""
    keywords: dict[str, object] = getattr(factory, "keywords", {})
    return ", ".join(f"{name}={value!r}" for name, value in keywords.items())
