"""`datamux evaluate`: how good a model is at every group size, on a whole split."""

from typing import Annotated

import typer

from datamux.cli import options
from datamux.cli.output import keep, show_table


def evaluate(
    model: Annotated[str, typer.Argument(help="Folder or name of a model.")],
    task: Annotated[str, typer.Option(help="A task (see datamux ls tasks) or your own file.")],
    split: options.Split = ["validation"],
    group_size: options.GroupSizes = [],
    groupings: options.Groupings = 3,
    filler: Annotated[
        str | None,
        typer.Option(
            help="What unused slots hold: nothing, or repeat (the group's rows again). "
            "Default: what the model was made for, which is nothing for all but published checkpoints."
        ),
    ] = None,
    data_dir: options.DataDir = None,
    text: options.TextColumns = ["text"],
    label: options.LabelColumn = "label",
    token_level: options.TokenLevel = False,
    bf16: Annotated[bool, typer.Option("--bf16", help="Run in bfloat16, as predict --bf16 does.")] = False,
    answer_from_neighbour: Annotated[
        bool,
        typer.Option(
            "--answer-from-neighbour",
            help="A control: answer each row from its neighbour's part of the mixture. "
            "The score of a model that reads the mixture falls to chance.",
        ),
    ] = False,
    record: options.Record = None,
    as_json: options.AsJson = False,
) -> None:
    """Score a model on whole splits, at each group size, with the rows in several random orders and for every slot.

    The rows are grouped as `datamux predict` groups them. "flips" is the share of answers that change with the order of
    the rows, and so with their neighbours.
    """
    from datamux.evaluate.evaluate_model import evaluate_model

    found = evaluate_model(
        model,
        task,
        splits=split,
        group_sizes=group_size,
        groupings=groupings,
        filler=filler,
        data_dir=data_dir,
        text=text,
        label=label,
        token_level=token_level or None,
        bf16=bf16,
        answer_from_neighbour=answer_from_neighbour,
    )
    keep(found, record, as_json)
    if as_json:
        return
    rows = []
    for row in found["results"]:
        slots = [slot for slot in row["slots"] if slot is not None]
        ends = (f"{min(slots):.1%}", f"{max(slots):.1%}") if slots else ("", "")
        shown = f"{-row['score']:.4g}" if row["metric"] == "mse" else f"{row['score']:.2%}"
        flips = "" if row["flips"] is None else f"{row['flips']:.1%}"
        rows.append((str(row["group_size"]), shown, row["metric"], f"{row['spread']:.2g}", flips, *ends))
    typer.echo(f"{model} on {task} ({' + '.join(split)}), {found['results'][0]['rows']} rows")
    show_table(("group size", "score", "metric", "spread", "flips", "worst slot", "best slot"), rows)
