"""`datamux reproduce`: the paper's MNIST figures, run here or as they were committed."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from datamux.cli.options import AsJson
from datamux.cli.output import check_can_draw, show_table

OUT = Path("runs/reproduce")
# The options that each kind of figure takes when it is run, and when its committed record is shown.
RUN = {
    "trained": ("series", "n", "epochs", "seeds", "jobs", "held_out", "data_dir", "out"),
    "picture": ("series", "n", "epochs", "held_out", "data_dir", "out"),
    "pca": ("data_dir", "out"),
    "speed": ("data_dir", "out"),
}
SHOW = {"trained": ("series", "n"), "picture": (), "pca": (), "speed": ("series", "n")}
ALWAYS = ("figure", "list_figures", "show", "plot", "as_json")


def reproduce(
    context: typer.Context,
    figure: Annotated[str | None, typer.Argument(help="Which figure; --list lists them.")] = None,
    list_figures: Annotated[bool, typer.Option("--list", help="List the figures, and stop.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the committed results; run nothing.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of every point.")] = 3,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs of 60,000 groups; default: the figure's.")] = None,
    n: Annotated[list[int], typer.Option("-n", help="Group sizes; default: the figure's.")] = [],
    series: Annotated[list[str], typer.Option(help="Only these series; repeat the option for several.")] = [],
    jobs: Annotated[int, typer.Option(min=1, help="Runs at once, each in a process of one thread.")] = 1,
    data_dir: Annotated[str | None, typer.Option(help="Folder that holds mnist/ (or DATAMUX_DATA).")] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Judge on the last sixth of the training images: to choose settings.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of runs and records; finished runs are kept.")] = OUT,
    plot: Annotated[Path | None, typer.Option(help="Draw the figure into this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a figure of the paper's MNIST experiments. An interrupted run goes on where it stopped."""
    if list_figures:
        return _list(as_json)
    if figure is None:
        raise ValueError("which figure? `datamux reproduce --list` lists them")
    _check_options(context, figure, show)
    from datamux.reproduce.committed import committed
    from datamux.reproduce.table import part_of, rows_of

    check_can_draw(plot)
    if show:
        record = committed(figure)
        record = part_of(record, series, n) if series or n else record
    else:
        record = _run(figure, data_dir, held_out, out, seeds=seeds, epochs=epochs, sizes=n, series=series, jobs=jobs)
    if plot is not None:
        from datamux.reproduce.plots import draw_figure

        draw_figure(record, plot)
        typer.echo(f"drawn: {plot}", err=True)
    rows = rows_of(record)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    else:
        _show(record, rows)
    if record["kind"] == "speed":
        _say_what_is_missing(record)


def _check_options(context: typer.Context, figure: str, show: bool) -> None:
    """An option that would change nothing is an error: whoever gives it expects something of it."""
    from datamux.reproduce.figures import get_figure

    takes = (SHOW if show else RUN)[get_figure(figure).kind]
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for name in context.params:
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and name not in (*takes, *ALWAYS):
            what = f"{figure} --show" if show else figure
            known = ", ".join(options[name] for name in (*takes, "plot", "as_json"))
            raise ValueError(f"{options[name]} does not apply to {what}; it takes {known}")


def _run(figure: str, data_dir: str | None, held_out: bool, out: Path, **options: Any) -> dict[str, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn

    from datamux.reproduce.figures import get_figure
    from datamux.reproduce.run import run_figure
    from datamux.tasks.images import load_mnist

    get_figure(figure).selected(options["series"], options["sizes"], None)  # a wrong name is said at once
    console = Console(stderr=True)
    data = load_mnist(data_dir)
    data, out = (data.held_out(), out / "held-out") if held_out else (data, out)
    console.print(f"data: {data}", highlight=False, soft_wrap=True)
    with ExitStack() as stack:

        def open_progress(total: float, done: float) -> Callable[[float], None]:
            columns = ("{task.description}", BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), "left:")
            bar = Progress(*columns, TimeRemainingColumn(elapsed_when_finished=True), console=console)
            stack.enter_context(bar)
            task = bar.add_task(figure, total=total)
            bar.advance(task, done)
            return lambda cost: bar.advance(task, cost)

        record = run_figure(figure, data, out, open_progress=open_progress, **options)
    console.print(f"record: {out / figure}.json", soft_wrap=True)
    return record


def _show(record: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    from datamux.reproduce.paper import stated_words

    data = record["data"]
    typer.echo(f"{record['figure']}: {data['source']}, {data['train']:,} training and {data['test']:,} test images")
    show_table(
        ("series", "n", "metric", "value", "spread", "seeds", "paper"),
        [
            (r["series"], str(r["n"]), r["metric"], f"{r['value']:.2f}", f"{r['spread']:.2f}", str(r["seeds"]),
             stated_words(record, r["series"], r["n"]))
            for r in rows
        ],
    )  # fmt: skip


def _say_what_is_missing(record: dict[str, Any]) -> None:
    from datamux.reproduce.speed import without_accuracy

    missing = without_accuracy(record)
    if missing:
        typer.echo(f"no accuracy: no committed record of the same data for {', '.join(missing)}", err=True)


def _list(as_json: bool) -> None:
    from datamux.reproduce.committed import has_record
    from datamux.reproduce.figures import FIGURES

    rows = [
        {"figure": f.name, "what": f.what, "series": [s.name for s in f.series], "committed": has_record(f.name)}
        for f in FIGURES.values()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    show_table(
        ("figure", "what", "series", "record"),
        [(f.name, f.what, ", ".join(s.name for s in f.series), "yes" if has_record(f.name) else "not run yet")
         for f in FIGURES.values()],
    )  # fmt: skip
