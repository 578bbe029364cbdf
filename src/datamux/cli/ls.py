"""`datamux ls`: what there is to choose from."""

import json
from enum import StrEnum
from typing import Annotated

import typer


class Kind(StrEnum):
    multiplexers = "multiplexers"
    demultiplexers = "demultiplexers"


def ls(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the multiplexers or demultiplexers, each with what it does."""
    from collections.abc import Callable, Mapping

    from datamux.demultiplexers import DEMULTIPLEXERS
    from datamux.multiplexers import MULTIPLEXERS
    from datamux.registry import settings, summary

    tables: dict[Kind, Mapping[str, Callable[..., object]]] = {
        Kind.multiplexers: MULTIPLEXERS,
        Kind.demultiplexers: DEMULTIPLEXERS,
    }
    rows = [
        {"name": name, "settings": settings(factory), "what": summary(factory)}
        for name, factory in tables[kind].items()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    view = Table("name", "settings", "what it does", box=None, pad_edge=False)
    for row in rows:
        view.add_row(*row.values())
    Console().print(view)
