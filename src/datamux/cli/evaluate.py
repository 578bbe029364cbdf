"""`datamux evaluate`: how good a model is at every group size, on a whole split."""

from typing import Annotated

import typer

from datamux.cli.options import (
    AsJson,
    DataDir,
    Groupings,
    GroupSizes,
    LabelColumn,
    Record,
    Split,
    TextColumns,
    TokenLevel,
)
from datamux.cli.output import keep, show_table


def evaluate(
    model: Annotated[str, typer.Argument(help="Folder or name of a multiplexed model.")],
    task: Annotated[str, typer.Option(help="A task (datamux ls tasks) or a file of your own.")],
    split: Split = ["validation"],
    group_size: GroupSizes = [],
    groupings: Groupings = 3,
    filler: Annotated[str, typer.Option(help="What unused slots hold: nothing or repeat.")] = "nothing",
    data_dir: DataDir = None,
    text: TextColumns = ["text"],
    label: LabelColumn = "label",
    token_level: TokenLevel = False,
    bf16: Annotated[
        bool | None, typer.Option(help="Run in bfloat16. Default: where the machine has instructions for it.")
    ] = None,
    swapped: Annotated[
        bool, typer.Option("--swapped", help="Give each row its neighbour's part of the mixture: is that what is read?")
    ] = False,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Score a model on whole splits: each group size, several random groupings, every slot."""
    from datamux.evaluate.report import evaluate_model

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
        swapped=swapped,
    )
    keep(found, record, as_json)
    if as_json:
        return
    rows = []
    for row in found["results"]:
        slots = [slot for slot in row["slots"] if slot is not None]
        ends = (f"{min(slots):.1%}", f"{max(slots):.1%}") if slots else ("", "")
        shown = f"{-row['score']:.4g}" if row["metric"] == "mse" else f"{row['score']:.2%}"
        rows.append((str(row["group_size"]), shown, row["metric"], f"{row['spread']:.2g}", *ends))
    typer.echo(f"{model} on {task} ({' + '.join(split)}), {found['results'][0]['rows']} rows")
    show_table(("group size", "score", "metric", "spread", "worst slot", "best slot"), rows)
