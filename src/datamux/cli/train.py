"""`datamux train`: text to a trained multiplexed model."""

from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe: a shipped one's name (datamux ls recipes) or a .toml file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run; a run found there is continued.")],
    override: Annotated[list[str], typer.Option("--set", help="section.key=value, as often as needed.")] = [],
    data_dir: Annotated[str | None, typer.Option(help="Folder of local data sets (or DATAMUX_DATA).")] = None,
    train_file: Annotated[
        Path | None, typer.Option("--train", help="Your own training rows (csv, tsv, jsonl, parquet).")
    ] = None,
    validation_file: Annotated[Path | None, typer.Option("--validation", help="Your own validation rows.")] = None,
    text: Annotated[list[str], typer.Option(help="Column of the text; twice for pairs.")] = ["text"],
    label: Annotated[str, typer.Option(help="Column of the label.")] = "label",
    token_level: Annotated[
        bool, typer.Option("--token-level", help="A csv or tsv of words and tags, separated by spaces.")
    ] = False,
) -> None:
    """Train by a recipe: retrieval warm-up, then the task. Resumes by itself if it was interrupted."""
    from datamux.tasks.task import own_task
    from datamux.train.recipe import load_recipe
    from datamux.train.stages import train as run

    task = None
    if train_file is not None:
        files = {"train": train_file} | ({"validation": validation_file} if validation_file else {})
        task = own_task(files, text, label, token_level=token_level or None)
    final = run(load_recipe(recipe, override), out, task=task, data_dir=data_dir)
    typer.echo(f"trained: {final}")
