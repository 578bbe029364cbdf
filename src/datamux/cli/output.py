"""Output that several commands share: run records, JSON, tables, and checks before a plot is drawn."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from datamux.errors import check_choice

PLOTS = (".png", ".svg", ".pdf", ".jpg", ".jpeg")


def keep(found: dict[str, Any], record: Path | None, as_json: bool) -> None:
    """Write the run record to a file, print it as JSON, or both, as the user asked."""
    if record is not None:
        from datamux.evaluate.records import write_record

        write_record(found, record)
    if as_json:
        typer.echo(json.dumps(found, indent=1))


def show_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")  # a long name continues on the next line
    for row in rows:
        table.add_row(*map(escape, row))  # a text may contain brackets, which are markup for rich
    Console().print(table)


def check_can_draw(plot: Path | None) -> None:
    """Report a missing matplotlib before anything is measured."""
    if plot is not None:
        import matplotlib  # noqa: F401

        check_can_draw_into(plot)


def check_can_draw_into(plot: Path) -> None:
    """The folder must exist, and the file must have an ending that can be drawn."""
    check_choice("ending of a plot", plot.suffix.lower(), PLOTS)
    if not plot.parent.is_dir():
        raise ValueError(f"no such folder for the plot: {plot.parent}")
