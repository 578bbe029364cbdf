"""Draws a figure of the paper from its rows: one panel per metric, one line per series, and stars for its numbers."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

from datamux.evaluate.plots import pyplot_without_window, save_figure
from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.paper.figure import PaperFigure, Row
from datamux.reproduce.records import recorded

COLUMNS = 3  # panels beside each other
MARKS = "osD^vP*X<>h"


def draw_paper_figure(figure: PaperFigure, file: Path) -> None:
    """Draw what there are records of."""
    if figure.draw is not None:
        return figure.draw(figure, file)
    rows = figure.rows()
    if not rows:
        raise FileNotFoundError(f"no record is committed of {figure.name}; run it: datamux reproduce {figure.name}")
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    across = min(COLUMNS, len(metrics))
    down = ceil(len(metrics) / across)
    pyplot = pyplot_without_window()
    size = (max(9, 5 * across), 4 * down + 1)
    canvas, grid = pyplot.subplots(down, across, figsize=size, layout="constrained", squeeze=False)
    names = list(dict.fromkeys(row["series"] for row in rows))
    for axes, metric in zip(grid.flat, metrics, strict=False):
        _draw_panel(axes, [row for row in rows if row["metric"] == metric], names, figure.x)
        axes.set_title(metric, fontsize=9)
    for axes in grid.flat[len(metrics) :]:
        axes.set_visible(False)
    canvas.suptitle(f"{figure.title}\n{figure.where}", fontsize=11)
    handles = {
        label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8)
    save_figure(canvas, file)


def _draw_panel(axes: Any, rows: Sequence[Row], names: Sequence[str], x: str) -> None:
    ticks = sorted({row["n"] for row in rows})
    place = {n: number for number, n in enumerate(ticks)}  # evenly spaced: sizes double, more or less
    for number, name in enumerate(names):
        points = sorted((row for row in rows if row["series"] == name), key=lambda row: row["n"])
        if not points:
            continue
        look = {"color": f"C{number % 10}", "marker": MARKS[number % len(MARKS)], "markersize": 5}
        spreads = [row["spread"] for row in points]
        axes.errorbar(
            [place[r["n"]] for r in points], [r["value"] for r in points], spreads, capsize=3, label=name, **look
        )
        stated = [(place[row["n"]], row["paper"]) for row in points if row["paper"] is not None]
        if stated:
            axes.plot(
                *zip(*stated, strict=True), "*", color=look["color"], mec="black", markersize=13, label="the paper"
            )
    axes.set_xticks(list(place.values()), [str(n) for n in ticks])
    axes.set_xlabel(x)
    axes.grid(alpha=0.3)


def draw_anchors(figure: PaperFigure, file: Path) -> None:
    """One cloud per model: every colour is one text, every dot one set of neighbours."""
    records = [record for name in figure.experiments for record in recorded(EXPERIMENTS[name])]
    if not records:
        raise FileNotFoundError("no record is committed of anchors; run it: datamux reproduce anchors")
    pyplot = pyplot_without_window()
    canvas, grid = pyplot.subplots(
        1, len(records), figsize=(max(6, 3.6 * len(records)), 4.4), layout="constrained", squeeze=False
    )
    for axes, record in zip(grid[0], records, strict=True):
        for text in record["results"]:
            axes.scatter(*zip(*text, strict=True), s=6)
        axes.set_title(f"{record['experiment'].partition('/')[2]}, N = {record['settings']['group_size']}", fontsize=9)
        axes.set(xticks=[], yticks=[])
    canvas.suptitle(f"{figure.title}\n{figure.where}", fontsize=11)
    save_figure(canvas, file)
