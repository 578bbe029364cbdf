"""`datamux reproduce`: list, run and show every experiment, the paper's and our own, on images and on texts."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datamux.cli.options import AsJson
from datamux.cli.output import check_can_draw

if TYPE_CHECKING:
    from datamux.reproduce.experiment import Experiment
    from datamux.reproduce.records import Record
    from datamux.reproduce.runner import Runner

OUT = Path("runs/reproduce")
# The options that not every experiment takes: the kinds that take them when they are run, and when they are shown.
RUN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("series", "n", "epochs", "held_out"), ("images", "picture")),
    "seeds": ("images", "train"),
    "jobs": ("images",),
    "encoder": ("train", "evaluate", "package", "texts", "speed", "memory", "breakdown", "frontier", "anchors", "tune"),
}
SHOW: dict[str, tuple[str, ...]] = dict.fromkeys(("series", "n"), ("images", "image speed"))
RUN_ALWAYS = ("data_dir", "out", "missing", "dry_run", "plot", "as_json")
SHOW_ALWAYS = ("plot", "as_json")


def reproduce(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Figures of the paper (tasks), figures (sst2) or experiments (sst2/scratch-n20)."),
    ] = None,
    list_them: Annotated[
        bool,
        typer.Option("--list", help="List the paper's figures and claims with their verdicts, and all experiments."),
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the committed results without running anything.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, in which order, and run nothing.")
    ] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Run only experiments that have no committed record yet.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of seeds. Default: as many as the experiment has.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Images: epochs of 60,000 groups. Default: the experiment's.")
    ] = None,
    n: Annotated[list[int], typer.Option("-n", help="Images: group sizes. Default: the experiment's.")] = [],
    series: Annotated[list[str], typer.Option(help="Images: only these series; repeat the option for several.")] = [],
    jobs: Annotated[
        int, typer.Option(min=1, help="Images: networks trained at the same time, each in a process with one thread.")
    ] = 1,
    held_out: Annotated[
        bool,
        typer.Option("--held-out", help="Images: test on the last sixth of the training images, to choose settings."),
    ] = False,
    encoder: Annotated[
        str | None, typer.Option(help="Folder or name of the pretrained encoder. Default: all-MiniLM-L6-v2.")
    ] = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder of local data sets (or DATAMUX_DATA).")] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of models and records. What is finished there is not run again.")
    ] = OUT,
    plot: Annotated[Path | None, typer.Option(help="Draw the figure into this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run experiments again, or show their committed results: the paper's and our own, on images and on texts.

    What an experiment needs (a warm-up, a teacher, a file of texts) is run first. An interrupted command continues
    where it stopped.
    """
    from datamux.cli import reproduce_output as output

    names = names or []
    if list_them:
        return output.print_list(names, as_json)
    if not names and not missing:
        raise ValueError("name a figure or an experiment; `datamux reproduce --list` lists the figures")
    check_can_draw(plot)
    if show:
        return _show(context, names, series, n, plot, as_json)
    from datamux.reproduce.experiment import narrowed
    from datamux.reproduce.runner import MINILM, Runner

    chosen = _chosen(names)
    _check_options(context, chosen, RUN, RUN_ALWAYS, names)
    if len(chosen) > len(names):  # a figure was named: run what can still be run
        chosen = [experiment for experiment in chosen if not experiment.retired]
    chosen = [narrowed(experiment, series, n, epochs, seeds) for experiment in chosen]
    if plot is not None:
        output.check_one_picture([experiment.kind for experiment in chosen])
    folder = out / "held-out" if held_out else out
    with ExitStack() as stack:
        runner = Runner(
            folder,
            _command,
            data_dir=data_dir,
            encoder=encoder or MINILM,
            jobs=jobs,
            held_out=held_out,
            use_committed=missing,
            progress=_open_progress(stack),
        )
        if dry_run:
            return _dry_run(runner, chosen)
        records = _run(runner, chosen)
    output.print_records(records, plot, as_json)


def _chosen(names: list[str]) -> "list[Experiment]":
    """The experiments of some names, each once; without names, all that can be run."""
    from datamux.reproduce.catalogue import EXPERIMENTS, choose
    from datamux.reproduce.figures import DERIVED

    if not names:
        return [experiment for experiment in EXPERIMENTS.values() if experiment.has_record and not experiment.retired]
    for name in names:
        if DERIVED.get(name) == "":
            raise ValueError(f"{name} is a table of several figures' records: run those, or add --show")
    wanted = [part for name in names for part in _parts(name)]
    return list({e.id: e for name in wanted for e in choose(DERIVED.get(name, name))}.values())


def _parts(name: str) -> tuple[str, ...]:
    """The experiments of a figure of the paper; any other name is itself."""
    from datamux.reproduce.catalogue import FIGURES
    from datamux.reproduce.paper.all_figures import PAPER_FIGURES

    return PAPER_FIGURES[name].experiments if name in PAPER_FIGURES and name not in FIGURES else (name,)


def _check_options(
    context: typer.Context,
    chosen: "list[Experiment]",
    takes: dict[str, tuple[str, ...]],
    always: tuple[str, ...],
    names: list[str],
) -> None:
    """Raise for an option that would change nothing: whoever gives it expects it to do something."""
    kinds = {experiment.kind for experiment in chosen}
    useful = [*(option for option, takers in takes.items() if kinds.intersection(takers)), *always]
    words = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for option in (*RUN, *RUN_ALWAYS):
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE" and option not in useful:
            what = " ".join([*names, *(["--show"] if takes is SHOW else [])])
            allowed = ", ".join(words[name] for name in useful)
            raise ValueError(f"{words[option]} does not apply to {what}, which takes {allowed}")


def _command(words: list[str]) -> None:
    """Run a `datamux` command in a process of its own. What it prints goes to stderr: stdout is for our tables."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raised here, it ends the command, too
    done = subprocess.run([sys.executable, "-m", "datamux.cli", *words], stdout=sys.stderr)
    if done.returncode:
        raise ValueError(f"this step failed: datamux {' '.join(words)}")


def _open_progress(stack: ExitStack) -> Callable[[float, float], Callable[[float], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn

    def open_progress(total: float, done: float) -> Callable[[float], None]:
        stack.close()  # the bar of the experiment before
        columns = ("training", BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), "left:")
        bar = Progress(*columns, TimeRemainingColumn(elapsed_when_finished=True), console=Console(stderr=True))
        stack.enter_context(bar)
        task = bar.add_task("", total=total)
        bar.advance(task, done)
        return lambda cost: bar.advance(task, cost)

    return open_progress


def _run(runner: "Runner", chosen: "list[Experiment]") -> "list[Record]":
    from rich.console import Console

    from datamux.evaluate.records import read_record
    from datamux.reproduce.experiment import IMAGES

    console = Console(stderr=True)
    if any(experiment.kind in IMAGES for experiment in chosen):
        console.print(f"data: {runner.images}", highlight=False, soft_wrap=True)
    files = runner.run(chosen, lambda text: console.print(text, highlight=False, soft_wrap=True, markup=False))
    for file in files:
        console.print(f"record: {file}", highlight=False, soft_wrap=True, markup=False)
    return [read_record(file) for file in files]


def _dry_run(runner: "Runner", chosen: "list[Experiment]") -> None:
    steps = runner.plan(chosen)
    for number, step in enumerate(steps, 1):
        typer.echo(f"{number}. {step.says}")
    if not steps:
        typer.echo(f"nothing is left to run; remove a record from {runner.records} to run it again")
    if any(runner.encoder in step.says for step in steps):
        typer.echo(f"these steps need the pretrained encoder {runner.encoder} (--encoder)", err=True)


def _show(
    context: typer.Context, names: list[str], series: list[str], n: list[int], plot: Path | None, as_json: bool
) -> None:
    """Print what is committed of some experiments, or of a section that is made of several figures' records."""
    from datamux.cli import reproduce_output as output
    from datamux.reproduce.catalogue import FIGURES
    from datamux.reproduce.figures import DERIVED
    from datamux.reproduce.paper.all_figures import PAPER_FIGURES

    if len(names) == 1 and names[0] in DERIVED:
        return output.print_derived(names[0], plot, as_json)
    if len(names) == 1 and names[0] in PAPER_FIGURES and names[0] not in FIGURES:
        return output.print_paper_figure(names[0], plot, as_json)
    chosen = _chosen(names)
    _check_options(context, chosen, SHOW, SHOW_ALWAYS, names)
    records = output.committed_records(chosen, series, n)
    if not records:
        raise FileNotFoundError(f"no record is committed of {', '.join(names)}; run it with datamux reproduce")
    output.print_records(records, plot, as_json)
