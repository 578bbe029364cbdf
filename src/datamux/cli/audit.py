"""`datamux audit`: what neighbours can do to an answer, and what can be learned of them."""

from pathlib import Path
from typing import Annotated

import typer

from datamux.cli import options
from datamux.cli.output import keep, show_table


def audit(
    model: Annotated[str, typer.Argument(help="Folder or name of a multiplexed model.")],
    task: Annotated[str | None, typer.Option(help="A task (see datamux ls tasks).")] = None,
    data: Annotated[Path | None, typer.Option(help="Your own file of labelled rows, instead of a task.")] = None,
    split: options.Split = ["validation"],
    group_size: options.GroupSizes = [],
    rows: Annotated[int, typer.Option(min=10, help="At most this many rows are used.")] = 2000,
    quick: Annotated[bool, typer.Option("--quick", help="Ask about fewer texts: seconds instead of minutes.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Draws the neighbours.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Write the report to this file, as one page with plots.")] = None,
    data_dir: options.DataDir = None,
    text: options.TextColumns = ["text"],
    label: options.LabelColumn = "label",
    token_level: options.TokenLevel = False,
    record: options.Record = None,
    as_json: options.AsJson = False,
) -> None:
    """Audit the mixing of a model: consistency, worst case, leakage, slots, and whether the mixture is read.

    Example: datamux audit sentiment --task sst2 --html audit.html
    """
    if (task is None) == (data is None):
        raise ValueError("give either --task (see datamux ls tasks) or --data (a file of labelled rows)")
    from datamux.audit.page import as_html
    from datamux.audit.run import audit_model

    found = audit_model(
        model,
        str(data) if task is None else task,
        splits=split,
        group_sizes=group_size,
        quick=quick,
        seed=seed,
        tell=lambda line: typer.echo(line, err=True),
        data_dir=data_dir,
        text=tuple(text),
        label=label,
        token_level=token_level or None,
        max_rows=rows,
    )
    if html is not None:
        html.write_text(as_html(found), encoding="utf-8")
        typer.echo(f"report: {html}", err=True)
    keep(found, record, as_json)
    if as_json:
        return
    typer.echo(f"{found['headline']}\n")
    for sentence in found["advice"]:
        typer.echo(f"- {sentence}")
    typer.echo()
    steady = [r for r in found["results"] if r["part"] == "consistency"]
    slots = {r["group_size"]: r for r in found["results"] if r["part"] == "position"}
    titles = ("texts per pass", "answers that change", "texts with any change", "worst slot", "best slot")
    shown = []
    for r in steady:
        at = slots[r["group_size"]]
        ends = (f"{at['worst']:.1%}", f"{at['best']:.1%}")
        shown.append((str(r["group_size"]), f"{r['flips']:.2%}", f"{r['touched']:.1%}", *ends))
    show_table(titles, shown)
