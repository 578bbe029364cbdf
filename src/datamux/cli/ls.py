"""`datamux ls`: lists multiplexers, demultiplexers, tasks, recipes, models, published checkpoints and losses."""

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
    encoders = "encoders"
    published = "published"
    losses = "losses"


def ls(kind: Annotated[Kind, typer.Argument(help="What to list.")], as_json: AsJson = False) -> None:
    """List parts, tasks, recipes, models, encoders, published checkpoints or losses, and what each of them does."""
    if kind == Kind.models and as_json:  # JSON has everything that is on their cards
        from datamux.zoo import shipped_models

        typer.echo(json.dumps([{"name": name, **card} for name, card in shipped_models().items()], indent=2))
        return
    rows = LISTS.get(kind, lambda: _strategies(kind))()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        typer.echo(f"no {kind.value}")
        return
    show_table(list(rows[0]), [list(row.values()) for row in rows])


def _strategies(kind: Kind) -> list[dict[str, str]]:
    from datamux.demultiplexers import DEMULTIPLEXERS
    from datamux.multiplexers import IMAGE_MULTIPLEXERS, MULTIPLEXERS
    from datamux.registry import settings, summary

    table = dict(DEMULTIPLEXERS if kind == Kind.demultiplexers else MULTIPLEXERS | IMAGE_MULTIPLEXERS)
    return [{"name": name, "settings": settings(factory), "what": summary(factory)} for name, factory in table.items()]


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
    from datamux.train.shipped import shipped_recipes

    return [{"name": name, "what": recipe.summary} for name, recipe in shipped_recipes().items()]


def _models() -> list[dict[str, str]]:
    from datamux.zoo import shipped_models

    return [
        {
            "name": name,
            "texts per pass": f"1 to {card['num_instances']}" if card["num_instances"] > 1 else "1",
            "score by texts per pass": f"{card['metric']}: "
            + ", ".join(f"{100 * score:.1f} at {k}" for k, score in card["scores"].items()),
            "what": card["what"],
        }
        for name, card in shipped_models().items()
    ]


def _encoders() -> list[dict[str, str]]:
    from datamux.zoo import shipped_encoders

    return [
        {
            "name": name,
            "texts per pass": f"1 to {about['num_instances']}" if about["num_instances"] > 1 else "1",
            "what": about["what"],
        }
        for name, about in shipped_encoders().items()
    ]


def _published() -> list[dict[str, str]]:
    from datamux.hub.published.checkpoint import published_names

    return [
        {"name": name, "trained on": task, "texts per pass": f"up to {slots}"}
        for name, (task, slots) in published_names().items()
    ]


def _losses() -> list[dict[str, str]]:
    from datamux.train.extra_losses import EXTRA_LOSSES

    return [{"name": name, "what": (loss.__doc__ or "").split("\n")[0]} for name, loss in EXTRA_LOSSES.items()]


LISTS = {
    Kind.tasks: _tasks,
    Kind.recipes: _recipes,
    Kind.models: _models,
    Kind.encoders: _encoders,
    Kind.published: _published,
    Kind.losses: _losses,
}
