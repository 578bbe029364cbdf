"""`datamux train`: text to a trained multiplexed model."""

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from datamux.cli.options import DataDir, LabelColumn, TextColumns, TokenLevel

OWN = "small/own"


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help=f"A shipped recipe's name (datamux ls recipes) or a .toml file; with --train: {OWN}."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder of the run; one found there is continued. Default: runs/NAME-nN."),
    ] = None,
    num_instances: Annotated[
        int | None, typer.Option("--num-instances", "-n", min=1, help="How many rows one pass may hold.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Folder or name of a pretrained encoder, a classifier, or a run's model.")
    ] = None,
    override: Annotated[list[str], typer.Option("--set", help="section.key=value, as often as needed.")] = [],
    data_dir: DataDir = None,
    train_file: Annotated[
        Path | None, typer.Option("--train", help="Your own training rows (csv, tsv, jsonl, parquet).")
    ] = None,
    validation_file: Annotated[Path | None, typer.Option("--validation", help="Your own validation rows.")] = None,
    unlabelled: Annotated[
        Path | None,
        typer.Option(help="Texts without labels (a table, or .txt with one a line): the teacher labels them."),
    ] = None,
    text: TextColumns = ["text"],
    label: LabelColumn = "label",
    token_level: TokenLevel = False,
) -> None:
    """Train by a recipe, or on a file of your own: retrieval warm-up, then the task. Resumes if it was interrupted."""
    from datamux.tasks.task import own_task
    from datamux.train.recipe import load_recipe
    from datamux.train.stages import train as run

    logging.basicConfig(format="%(message)s")
    logging.getLogger("datamux").setLevel(logging.INFO)
    if recipe is None and train_file is None:
        raise ValueError(
            "what shall be trained? Name a recipe (datamux ls recipes), or give your own rows: --train FILE"
        )
    settings = list(override)
    settings += [f"model.num_instances={num_instances}"] if num_instances is not None else []
    settings += [f"model.start={start}"] if start is not None else []
    settings += [f"task.unlabelled={unlabelled}"] if unlabelled is not None else []
    resolved = load_recipe(recipe or OWN, settings)
    task = None
    if train_file is not None:
        files = {"train": train_file} | ({"validation": validation_file} if validation_file else {})
        task = own_task(files, text, label, token_level=token_level or None)
    name = task.name if task is not None else str(recipe).removesuffix(".toml").replace("/", "-")
    folder = out or Path("runs") / f"{name}-n{resolved.model.num_instances}"
    final = run(resolved, folder, task=task, data_dir=data_dir)
    if os.environ.get("RANK", "0") != "0":
        return  # torchrun: one process speaks for all
    typer.echo(f"trained: {final}")
    if task is not None:
        columns = "".join(f" --text {column}" for column in text)
        words = " --token-level" if token_level else ""
        typer.echo(f"how good it is:  datamux evaluate {final} --task TEST_FILE{columns} --label {label}{words}")
        typer.echo(f"use it:          datamux predict {final} FILE -o ANSWERS.csv{columns}")
