"""`datamux frontier`: accuracy against throughput for everything you could run, and which of it you should."""

from pathlib import Path
from typing import Annotated

import typer

from datamux.cli.output import check_can_draw, keep, show_table


def frontier(
    task: Annotated[str, typer.Argument(help="A task (datamux ls tasks) or a file of your own.")],
    model: Annotated[list[str], typer.Option("--model", "-m", help="Trained models; the plain one first.")],
    name: Annotated[list[str], typer.Option("--name", help="A short name for each model, in the same order.")] = [],
    split: Annotated[list[str], typer.Option(help="Split; several are scored together.")] = ["validation"],
    engine: Annotated[list[str], typer.Option(help="torch, bf16, compiled, onnx, int8, openvino.")] = ["torch"],
    group_size: Annotated[list[int], typer.Option("--group-size", "-k", help="Default: 1, 2, 5, 10, 20, 40, n.")] = [],
    max_drop: Annotated[float, typer.Option(help="Points of accuracy that you can spare.")] = 1.0,
    groupings: Annotated[int, typer.Option(min=1, help="Random groupings for each group size.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; everything runs in each.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.01, help="Time of one point in one round.")] = 1.0,
    data_dir: Annotated[str | None, typer.Option(help="Folder of local data sets (or DATAMUX_DATA).")] = None,
    text: Annotated[list[str], typer.Option(help="Column of the text in a file of your own; twice for pairs.")] = [
        "text"
    ],
    label: Annotated[str, typer.Option(help="Column of the label in a file of your own.")] = "label",
    token_level: Annotated[
        bool, typer.Option("--token-level", help="A csv or tsv of words and tags, separated by spaces.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw accuracy against throughput into this file.")] = None,
    record: Annotated[Path | None, typer.Option(help="Write a run record to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score and time trained models at every group size, side by side, and recommend one for your accuracy budget."""
    from rich.console import Console

    from datamux.evaluate.frontier import Point, measure_frontier, recommend

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
        for p in sorted(points, key=lambda p: p.rate)
    ]
    show_table(("", "score", "points lost", "instances/s", "against the first", "best"), rows)
    choice = recommend(points, max_drop)
    Console().print(
        f"\nWithin {max_drop:g} points of {points[0].name}: use {choice.name} "
        f"({choice.ratio:.1f} times as fast, {choice.drop:.2f} points lost)."
    )
