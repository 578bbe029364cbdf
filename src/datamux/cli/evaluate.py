"""`datamux evaluate`: how good a model is at every group size, on a whole split."""

from pathlib import Path
from typing import Annotated

import typer

from datamux.cli.output import keep, show_table


def evaluate(
    model: Annotated[str, typer.Argument(help="Folder or name of a multiplexed model.")],
    task: Annotated[str, typer.Option(help="A task (datamux ls tasks) or a file of your own.")],
    split: Annotated[list[str], typer.Option(help="Split; several are scored together.")] = ["validation"],
    group_size: Annotated[list[int], typer.Option("--group-size", "-k", help="Default: 1, 2, 5, 10, 20, 40, n.")] = [],
    groupings: Annotated[int, typer.Option(min=1, help="Random groupings for each group size.")] = 3,
    filler: Annotated[str, typer.Option(help="What unused slots hold: nothing or repeat.")] = "nothing",
    data_dir: Annotated[str | None, typer.Option(help="Folder of local data sets (or DATAMUX_DATA).")] = None,
    text: Annotated[list[str], typer.Option(help="Column of the text in a file of your own; twice for pairs.")] = [
        "text"
    ],
    label: Annotated[str, typer.Option(help="Column of the label in a file of your own.")] = "label",
    token_level: Annotated[
        bool, typer.Option("--token-level", help="A csv or tsv of words and tags, separated by spaces.")
    ] = False,
    bf16: Annotated[bool, typer.Option(help="Run in bfloat16.")] = True,
    record: Annotated[Path | None, typer.Option(help="Write a run record to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
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
