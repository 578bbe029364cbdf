"""`datamux bench speed`: instances per second of plain and multiplexed models."""

from pathlib import Path
from typing import Annotated

import typer

from datamux.cli.bench.options import (
    SIZES,
    HeadContext,
    Heads,
    Hidden,
    HiddenDim,
    Layers,
    Sizes,
    Tagging,
    shape_of,
)
from datamux.cli.options import ENGINES, AsJson, DataDir, Record
from datamux.cli.output import check_can_draw, keep, show_table


def speed(
    model: Annotated[
        str | None, typer.Option(help="A trained or exported model to measure, instead of new ones.")
    ] = None,
    layers: Layers = 4,
    hidden: Hidden = 256,
    heads: Heads = 4,
    group_size: Sizes = SIZES,
    lengths: Annotated[
        str, typer.Option(help="Tokens per instance: fixed:TOKENS, or a task whose text lengths are used.")
    ] = "fixed:32",
    texts: Annotated[
        bool, typer.Option("--texts", help="Measure from the task's texts to answers, with tokenising.")
    ] = False,
    engine: Annotated[
        list[str], typer.Option(help=f"{ENGINES} Default: torch, or the one that the model was exported for.")
    ] = [],
    demultiplexer: Annotated[
        list[str], typer.Option(help="Demultiplexers to measure; gate is ours, index is the paper's.")
    ] = ["gate", "index"],
    hidden_dim: HiddenDim = None,
    tagging: Tagging = False,
    head_context: HeadContext = 0,
    plain_size: Annotated[
        list[str],
        typer.Option(
            metavar="LAYERSxHIDDEN",
            help="Also measure a plain model of this size, such as 1x64; repeat the option for several.",
        ),
    ] = [],
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="Instances per round. Default: as many as take --seconds. The paper used 20000."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds; every model runs in each of them.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.01, help="Seconds that one model runs in one round.")] = 1.0,
    data_dir: DataDir = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the throughput and the share of the N-fold gain into this file.")
    ] = None,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Measure instances per second of plain and multiplexed models, in turn, each at its best batch size."""
    from rich.console import Console

    from datamux.evaluate.benchmarks import run_speed
    from datamux.evaluate.speed_table import speed_table

    check_can_draw(plot)
    console = Console(stderr=True)
    found = run_speed(
        model=model,
        shape=shape_of(layers, hidden, heads, tagging),
        group_sizes=group_size,
        lengths=lengths,
        texts=texts,
        engines=engine,
        demultiplexers=demultiplexer,
        plain_sizes=plain_size,
        hidden_dim=hidden_dim,
        head_context=head_context,
        samples=samples,
        rounds=rounds,
        seconds=seconds,
        data_dir=data_dir,
        tell=lambda text: console.print(text, style="dim"),
    )
    keep(found, record, as_json)
    if plot is not None:
        from datamux.evaluate.plots import draw_speed

        draw_speed(found, plot)
        console.print(f"drawn: {plot}")
    if not as_json:
        show_table(*speed_table(found["results"]))
