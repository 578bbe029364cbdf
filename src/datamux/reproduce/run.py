"""Run a figure: every run that is not finished yet, then its record."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from datamux.errors import check_at_least_one
from datamux.evaluate.records import write_record
from datamux.reproduce.accuracy import training_record
from datamux.reproduce.figures import Figure, get_figure
from datamux.reproduce.pca import pca_record
from datamux.reproduce.picture import picture_record
from datamux.reproduce.runs import Progress, build_all, finished, perform_all, runs_of
from datamux.reproduce.series import Series
from datamux.reproduce.speed import speed_record
from datamux.tasks.images import Images

OpenProgress = Callable[[float, float], Progress]  # given the cost of all runs and of those that are finished


def run_figure(
    name: str,
    data: Images,
    out: Path,
    *,
    seeds: int = 3,
    epochs: int | None = None,
    sizes: list[int] = [],  # noqa: B006 - never changed
    series: list[str] = [],  # noqa: B006
    jobs: int = 1,
    open_progress: OpenProgress = lambda total, done: lambda cost: None,
) -> dict[str, Any]:
    """The record of a figure, which is also written to `out`. What was finished there before is not run again."""
    figure = get_figure(name)
    check_at_least_one("seeds", seeds)
    check_at_least_one("jobs", jobs)
    chosen = figure.selected(series, sizes, epochs)
    if figure.kind != "trained":
        record = _computed(figure, chosen, data, open_progress)
    else:
        runs = runs_of(chosen, seeds)
        build_all([run for run in runs if finished(run, out, data) is None], data)
        done = sum(run.cost for run in runs if finished(run, out, data) is not None)
        progress = open_progress(sum(run.cost for run in runs), done)
        perform_all(runs, out, data, jobs=jobs, progress=progress)
        kept = [file for run in runs if (file := finished(run, out, data)) is not None]
        record = training_record(figure, chosen, runs, kept, data)
    write_record(record, out / f"{name}.json")
    return record


def _computed(figure: Figure, chosen: list[Series], data: Images, open_progress: OpenProgress) -> dict[str, Any]:
    if figure.kind == "pca":
        return pca_record(data)
    if figure.kind == "speed":
        return speed_record(data)
    return picture_record(chosen, data, progress=open_progress(sum(run.cost for run in runs_of(chosen, 1)), 0))
