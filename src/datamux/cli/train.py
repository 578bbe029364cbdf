"""`datamux train`: text to a trained multiplexed model."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from datamux.cli.options import DataDir, LabelColumn, TextColumns, TokenLevel

# The recipe for --train if none is named: without --start, with a pretrained encoder, and with any other start.
FROM_THE_PACKAGE = "small/your-file-encoder"
FROM_PRETRAINED = "small/your-file-pretrained"
YOUR_FILE = "small/your-file"
SIZES = ("layers", "hidden", "heads", "vocab_size", "architecture", "tokenizer", "lowercase")  # not those of an encoder


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help=f"Name of a recipe in the package (see datamux ls recipes), or a .toml file. "
            f"With --train it may be left out and is then {FROM_THE_PACKAGE}, or what suits --start."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder of the run. A run that was interrupted there is continued. Default: runs/NAME-nN.",
        ),
    ] = None,
    num_instances: Annotated[
        int | None, typer.Option("--num-instances", "-n", min=1, help="How many rows can share one pass.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="Start from this model: folder or name of a pretrained encoder, a classifier, or a run's model."
        ),
    ] = None,
    override: Annotated[
        list[str],
        typer.Option("--set", help="Change one setting of the recipe: section.key=value. May be repeated."),
    ] = [],
    data_dir: DataDir = None,
    train_file: Annotated[
        Path | None, typer.Option("--train", help="Your own training rows (csv, tsv, jsonl, parquet).")
    ] = None,
    validation_file: Annotated[Path | None, typer.Option("--validation", help="Your own validation rows.")] = None,
    unlabelled: Annotated[
        Path | None,
        typer.Option(
            help="Texts without labels (a table, or a .txt file with one text per line); the teacher labels them."
        ),
    ] = None,
    text: TextColumns = ["text"],
    label: LabelColumn = "label",
    token_level: TokenLevel = False,
    print_recipe: Annotated[
        bool, typer.Option("--print", help="Print the recipe with all its settings as TOML, and train nothing.")
    ] = False,
) -> None:
    """Train a model by a recipe, or on a file of your own: a retrieval warm-up, then the task.

    An interrupted run continues where it stopped. To write a recipe of your own, start from a printed one:
    datamux train small/sst2-n20 --print > mine.toml
    """
    from datamux.tasks.task import task_from_files
    from datamux.train.recipe import load_recipe
    from datamux.train.stages import train as run_stages

    logging.basicConfig(format="%(message)s")
    logging.getLogger("datamux").setLevel(logging.INFO)
    if recipe is None and train_file is None:
        raise ValueError(
            "there is nothing to train: name a recipe (see datamux ls recipes), or give your own rows with --train FILE"
        )
    chosen = recipe or recipe_for(start, override)
    settings = [*_middle_of(start), *override] if chosen == FROM_PRETRAINED and start is not None else list(override)
    settings += [f"model.num_instances={num_instances}"] if num_instances is not None else []
    settings += [f"model.start={start}"] if start is not None else []
    settings += [f"task.unlabelled={unlabelled}"] if unlabelled is not None else []
    resolved = load_recipe(chosen, settings)
    if print_recipe:
        typer.echo(resolved.as_toml(), nl=False)
        return
    task = None
    if train_file is not None:
        files = {"train": train_file} | ({"validation": validation_file} if validation_file else {})
        task = task_from_files(files, text, label, token_level=token_level or None)
    name = task.name if task is not None else str(recipe).removesuffix(".toml").replace("/", "-")
    folder = out or Path("runs") / f"{name}-n{resolved.model.num_instances}"
    final = run_stages(resolved, folder, task=task, data_dir=data_dir)
    if os.environ.get("RANK", "0") != "0":
        return  # torchrun: only the first process prints
    if task is not None and resolved.task.steps:
        from datamux.train.verdict import judge

        typer.echo(judge(final, resolved, task, data_dir))
    typer.echo(f"trained: {final}")
    if task is not None:
        columns = "".join(f" --text {column}" for column in text)
        words = " --token-level" if token_level else ""
        typer.echo(f"measure it:  datamux evaluate {final} --task TEST_FILE{columns} --label {label}{words}")
        typer.echo(f"use it:      datamux predict {final} FILE -o ANSWERS.csv{columns}")


def _middle_of(start: str) -> list[str]:
    """The setting that mixes after half of the start model's layers."""
    from datamux.hub.loading import load_config

    layers = getattr(load_config(start), "num_hidden_layers", None)
    return [f"model.mux_layer={layers // 2}"] if layers else []


def recipe_for(start: str | None = None, override: Sequence[str] = ()) -> str:
    """The recipe for a file of the user's own: what suits a pretrained encoder does not suit one of ours.

    Whoever sets the size of the network wants a new one, trained from scratch.
    """
    from datamux.hub.loading import is_classifier, load_config
    from datamux.train.build import is_ours

    if start is None:
        resized = any(setting.startswith(f"model.{size}=") for setting in override for size in SIZES)
        return YOUR_FILE if resized else FROM_THE_PACKAGE
    config = load_config(start)
    return YOUR_FILE if is_ours(config) or is_classifier(config) else FROM_PRETRAINED
