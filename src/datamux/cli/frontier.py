"""`datamux frontier`: accuracy against throughput for everything you could run, and which setting to use."""

from pathlib import Path
from typing import Annotated

import typer

from datamux.cli import options
from datamux.cli.output import check_can_draw, keep, show_table


def frontier(
    task: Annotated[str, typer.Argument(help="A task (see datamux ls tasks) or your own file.")],
    model: Annotated[
        list[str],
        typer.Option("--model", "-m", help="Trained models, the plain one first. Default: those in the package."),
    ] = [],
    name: Annotated[list[str], typer.Option("--name", help="A short name for each model, in the same order.")] = [],
    split: options.Split = ["validation"],
    engine: options.Engines = ["torch"],
    group_size: options.GroupSizes = [],
    max_drop: Annotated[
        float, typer.Option(min=0, help="How many percentage points of the score you can give up.")
    ] = 1.0,
    groupings: options.Groupings = 3,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds; every setting runs in each of them.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.01, help="Seconds that one setting runs in one round.")] = 1.0,
    data_dir: options.DataDir = None,
    text: options.TextColumns = ["text"],
    label: options.LabelColumn = "label",
    token_level: options.TokenLevel = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the score against the throughput into this file.")] = None,
    record: options.Record = None,
    as_json: options.AsJson = False,
) -> None:
    """Score and time trained models at every group size, side by side, and recommend one for your accuracy budget."""
    from rich.console import Console

    from datamux.evaluate.frontier import Point, measure_frontier

    check_can_draw(plot)
    notes = Console(stderr=True)
    found = measure_frontier(
        model,
        task,
        names=name,
        splits=split,
        engines=engine,
        group_sizes=group_size,
        groupings=groupings,
        rounds=rounds,
        seconds=seconds,
        max_drop=max_drop,
        data_dir=data_dir,
        text=text,
        label=label,
        token_level=token_level or None,
        tell=lambda text: notes.print(text, style="dim"),
    )
    keep(found, record, as_json)
    if plot is not None:
        from datamux.evaluate.plots import draw_frontier

        draw_frontier(found, plot)
        notes.print(f"drawn: {plot}")
    if as_json:
        return
    rows, flips = [], any(row["flips"] is not None for row in found["results"])
    for p in sorted((Point(**row) for row in found["results"]), key=lambda p: p.ratio):
        ratio = f"{p.ratio:.2f}x ({p.lowest:.2f} to {p.highest:.2f})"
        share = ["" if p.flips is None else f"{p.flips:.1%}"] * flips
        quality = (f"{p.score:.2%}", *share, f"{p.drop:+.2f}")
        rows.append((p.name, *quality, f"{p.rate:,.0f}", ratio, "*" if p.best else ""))
    titles = ("", "score", *["flips"] * flips, "points lost", "instances/s", "against the first", "best")
    show_table(titles, rows)
    Console().print(f"\n{found['recommendation']['line']}")
