"""`datamux bench serve`: servers under rising load."""

from pathlib import Path
from typing import Annotated

import typer

from datamux.cli.options import AsJson, DataDir, Record
from datamux.cli.output import check_can_draw, keep, show_table


def serve(
    model: Annotated[
        str | None, typer.Argument(help="Name or folder of the multiplexed model to serve. Not needed with --url.")
    ] = None,
    plain: Annotated[str | None, typer.Option(help="The plain model to serve and to compare with.")] = None,
    url: Annotated[
        str | None, typer.Option(help="Measure a server that runs already, too, such as http://127.0.0.1:8080.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="API key for --url.", envvar="DATAMUX_BENCH_KEY")] = None,
    batch: Annotated[list[int], typer.Option(min=1, help="Texts in one request; repeat the option for several.")] = [
        1,
        32,
    ],
    users: Annotated[
        list[int],
        typer.Option(
            min=1,
            help="Users who send one request after the other; repeat the option for each step of the load. "
            "Default: up to 64 with single texts, up to 32 with batches.",
        ),
    ] = [],
    latency_ms: Annotated[
        float, typer.Option(min=0.1, help="Report the throughput at which 95% of the requests take at most this long.")
    ] = 100.0,
    texts: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Texts to send, one per line. Default: SST-2 if DATAMUX_DATA has it, else the sentences of the demo.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds; every server runs in each of them.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds per server and step, at least.")] = 3.0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads that one pass uses. Default: PyTorch decides.")
    ] = None,
    separate_tenants: Annotated[
        bool,
        typer.Option(
            "--separate-tenants", help="Every user is a tenant of its own, so texts of two users never share a group."
        ),
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Also show where the time of single-text requests goes.")
    ] = False,
    data_dir: DataDir = None,
    plot: Annotated[Path | None, typer.Option(help="Draw throughput and latency into this file.")] = None,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Load real servers with more and more users: the plain model, the multiplexed one, and that at full group size.

    Each server has its own process; all are measured in turn. The load generator (locust) runs on the same machine.
    """
    from rich.console import Console

    from datamux.serve.load.bench import Plan, run_serve
    from datamux.serve.load.table import tables

    check_can_draw(plot)
    console = Console(stderr=True)
    plan = Plan(
        model=model,
        plain=plain,
        url=url,
        key=key,
        batches=tuple(dict.fromkeys(batch)),
        users=users,
        rounds=rounds,
        seconds=seconds,
        latency_ms=latency_ms,
        texts=texts,
        threads=threads,
        separate_tenants=separate_tenants,
        profile=profile,
        data_dir=data_dir,
    )
    found = run_serve(plan, lambda text: console.print(text, style="dim", highlight=False))
    keep(found, record, as_json)
    if plot is not None:
        from datamux.serve.load.plot import draw_serve

        draw_serve(found, plot)
        console.print(f"drawn: {plot}")
    if not as_json:
        for table in tables(found):
            typer.echo(f"\n{table.title}\n")
            show_table(table.columns, table.rows)
            typer.echo("".join(f"\n{note}" for note in table.notes))
