"""`datamux frontier`: accuracy against throughput for everything you could run, and which of it you should."""

from pathlib import Path
from typing import Annotated

import typer

from datamux.cli.options import (
    AsJson,
    DataDir,
    Engines,
    Groupings,
    GroupSizes,
    LabelColumn,
    Record,
    Split,
    TextColumns,
    TokenLevel,
)
from datamux.cli.output import check_can_draw, keep, show_table


def frontier(
    task: Annotated[str, typer.Argument(help="A task (datamux ls tasks) or a file of your own.")],
    model: Annotated[
        list[str],
        typer.Option("--model", "-m", help="Trained models, the plain one first. Default: those in the package."),
    ] = [],
    name: Annotated[list[str], typer.Option("--name", help="A short name for each model, in the same order.")] = [],
    split: Split = ["validation"],
    engine: Engines = ["torch"],
    group_size: GroupSizes = [],
    max_drop: Annotated[float, typer.Option(min=0, help="Points of accuracy that you can spare.")] = 1.0,
    groupings: Groupings = 3,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; everything runs in each.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.01, help="Time of one point in one round.")] = 1.0,
    data_dir: DataDir = None,
    text: TextColumns = ["text"],
    label: LabelColumn = "label",
    token_level: TokenLevel = False,
    plot: Annotated[Path | None, typer.Option(help="Draw accuracy against throughput into this file.")] = None,
    record: Record = None,
    as_json: AsJson = False,
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
    points = [Point(**row) for row in found["results"]]
    rows = [
        (
            p.name,
            f"{p.score:.2%}",
            f"{p.drop:+.2f}",
            f"{p.rate:,.0f}",
            f"{p.ratio:.2f}x ({p.lowest:.2f} to {p.highest:.2f})",
            "*" if p.best else "",
        )
        for p in sorted(points, key=lambda p: p.ratio)
    ]
    show_table(("", "score", "points lost", "instances/s", "against the first", "best"), rows)
    Console().print(f"\n{found['recommendation']['line']}")
