"""`datamux ls`: what there is to choose from."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from datamux.cli.options import AsJson
from datamux.cli.output import show_table


class Kind(StrEnum):
    multiplexers = "multiplexers"
    demultiplexers = "demultiplexers"
    tasks = "tasks"
    recipes = "recipes"
    models = "models"


def ls(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    as_json: AsJson = False,
) -> None:
    """List what there is to choose from, each with what it does."""
    if kind == Kind.models and as_json:  # all that their cards have, as data
        from datamux.zoo import shipped_models

        typer.echo(json.dumps([{"name": name, **card} for name, card in shipped_models().items()], indent=2))
        return
    rows = {"tasks": _tasks, "recipes": _recipes, "models": _models}.get(kind, lambda: _strategies(kind))()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        typer.echo(f"no {kind.value}")
        return
    show_table(list(rows[0]), [list(row.values()) for row in rows])


def _strategies(kind: Kind) -> list[dict[str, str]]:
    from collections.abc import Callable, Mapping

    from datamux.demultiplexers import DEMULTIPLEXERS
    from datamux.multiplexers import IMAGE_MULTIPLEXERS, MULTIPLEXERS
    from datamux.registry import settings, summary

    tables: dict[Kind, Mapping[str, Callable[..., object]]] = {
        Kind.multiplexers: MULTIPLEXERS | IMAGE_MULTIPLEXERS,
        Kind.demultiplexers: DEMULTIPLEXERS,
    }
    return [
        {"name": name, "settings": settings(factory), "what": summary(factory)}
        for name, factory in tables[kind].items()
    ]


def _tasks() -> list[dict[str, str]]:
    from datamux.tasks.task import TASKS

    return [
        {
            "name": t.name,
            "kind": t.kind,
            "columns": ", ".join([*t.text, t.label or ""]).strip(", "),
            "hub": "/".join(t.hub),
        }
        for t in TASKS.values()
    ]


def _recipes() -> list[dict[str, str]]:
    from datamux.train.recipe import shipped_recipes

    return [
        {"name": name, "what": file.read_text().splitlines()[0].lstrip("# ")}
        for name, file in shipped_recipes().items()
    ]


def _models() -> list[dict[str, str]]:
    from datamux.zoo import shipped_models

    return [
        {
            "name": name,
            "texts a pass": f"1 to {card['num_instances']}" if card["num_instances"] > 1 else "1",
            "score by texts a pass": f"{card['metric']}: "
            + ", ".join(f"{100 * score:.1f} at {k}" for k, score in card["scores"].items()),
            "what": card["what"],
        }
        for name, card in shipped_models().items()
    ]
