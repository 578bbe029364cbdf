"""`datamux bench cluster`: files on Ray against the local engine."""

from typing import Annotated

import typer

from datamux.cli.bench.options import Sizes
from datamux.cli.options import AsJson, DataDir, Record
from datamux.cli.output import keep, show_table


def cluster(
    model: Annotated[str, typer.Argument(help="Name or folder of the model.")] = "sentiment",
    group_size: Sizes = [1, 20],
    rows: Annotated[
        int, typer.Option(min=1, help="Rows of the runs with the largest group size; smaller ones get a quarter.")
    ] = 100_000,
    more_rows: Annotated[
        list[int],
        typer.Option(
            min=1,
            help="Also measure the largest group size and the most workers with this many rows; repeat for several. "
            "The local engine takes part up to a million rows, because it holds them in memory.",
        ),
    ] = [1_000_000, 10_000_000],
    workers: Annotated[
        list[int], typer.Option(min=1, help="Number of Ray workers, and cores of both engines; repeat for several.")
    ] = [1, 2],
    rounds: Annotated[int, typer.Option(min=1, help="How often the runs of --rows are done; the median counts.")] = 3,
    task: Annotated[str, typer.Option(help="The task whose training texts the rows are made of.")] = "sst2",
    data_dir: DataDir = None,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Measure `predict --engine ray` against the local engine: speed, start-up, and memory of the driver.

    Every run has its own process and cores. Rows are real texts with their words in random order. With the defaults it
    takes about 35 minutes on two cores. Interrupted with --record, it goes on with the run that was under way.
    """
    from rich.console import Console

    from datamux.cluster.cost import measured_table
    from datamux.cluster.measuring import Plan, measure_cluster

    console = Console(stderr=True)
    plan = Plan(model, group_size, rows, more_rows, workers, rounds, task, data_dir)
    journal = None if record is None else record.with_name(record.name + ".runs")
    found = measure_cluster(plan, lambda text: console.print(text, style="dim", highlight=False), journal)
    keep(found, record, as_json)
    if not as_json:
        show_table(*measured_table(found))
