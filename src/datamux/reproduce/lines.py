"""Accuracy against N: a line a series, its spread over indices as bars, what the paper states as stars or triangles."""

from typing import Any

from datamux.evaluate.plots import pyplot_without_window
from datamux.reproduce.accuracy import ACCURACY, accuracy_rows
from datamux.reproduce.panels import TITLES, Panel, legend_below, looks, panel_of, panels_of, show_sizes
from datamux.reproduce.paper import stated
from datamux.train.image_networks import ImageNetwork

STEP = 0.045  # of a doubling of N: neighbouring series stand so far apart that their bars can be told apart
MARKS = {"exact": "*", "about": "*", "above": "^"}
STATED = {"*": "stated in the paper or its notebook", "^": "the paper: above this"}
SAME_AS_PLAIN = ("identity", "rotation", "rotation_as_published")  # at N = 1


def draw_accuracy(record: dict[str, Any]) -> Any:
    """The figure of a record of trained networks."""
    pyplot = pyplot_without_window()
    networks = {name: ImageNetwork(**settings["network"]) for name, settings in record["recipe"].items()}
    rows = accuracy_rows(record)
    shown = {row["series"] for row in rows}
    panels = panels_of(networks[name] for name in shown)
    figure, grid = pyplot.subplots(
        1, len(panels), figsize=(max(7, 5.2 * len(panels)), 6), squeeze=False, sharey=True, layout="constrained"
    )
    for axes, panel in zip(grid[0], panels, strict=True):
        own = [row for row in rows if panel_of(networks[row["series"]]) == panel]
        _draw_panel(record, own, axes)
        plain = _plain(rows, networks, panel)
        if plain is not None:
            axes.axhline(plain, color="gray", linestyle=":", label=f"one image a pass: {plain:.1f}", zorder=0)
        axes.set_title(TITLES[panel], fontsize=10)
        show_sizes(axes, {row["n"] for row in rows})
        axes.set_xlim(0.8 * min(row["n"] for row in rows), 1.25 * max(row["n"] for row in rows))
        axes.grid(alpha=0.3)
        legend_below(axes)
    grid[0][0].set_ylabel(f"{ACCURACY} (bars: spread over indices)")
    return figure


def _draw_panel(record: dict[str, Any], rows: list[dict[str, Any]], axes: Any) -> None:
    # A series that is there for N = 1 alone is the line of the plain network.
    names = [name for name in dict.fromkeys(row["series"] for row in rows) if _sizes(rows, name) != {1}]
    labelled: set[str] = set()
    for number, (name, look) in enumerate(looks(names).items()):
        own = sorted((row for row in rows if row["series"] == name), key=lambda row: row["n"])
        aside = 2 ** (STEP * (number - (len(names) - 1) / 2))
        axes.errorbar(
            [row["n"] * aside for row in own],
            [row["value"] for row in own],
            [row["spread"] for row in own],
            label=name.removeprefix("mlp ").removeprefix("cnn ").replace("_", " "),
            **look,
            marker="o",
            markersize=4,
            capsize=2,
            elinewidth=1,
        )
        for row in own:
            said = stated(record, name, row["n"])
            if said is not None and said.value is not None:
                mark = MARKS[said.kind]
                label = None if mark in labelled else STATED[mark]
                labelled.add(mark)
                place = ([row["n"] * aside], [said.value])
                size = 13 if mark == "*" else 9
                axes.plot(*place, mark, color=look["color"], mec="black", markersize=size, label=label, zorder=5)


def _sizes(rows: list[dict[str, Any]], name: str) -> set[int]:
    return {row["n"] for row in rows if row["series"] == name}


def _plain(rows: list[dict[str, Any]], networks: dict[str, ImageNetwork], panel: Panel) -> float | None:
    """What the network without multiplexing reaches, if the record has it."""
    backbone, _ = panel
    found = {
        networks[row["series"]].multiplexer: row["value"]
        for row in rows
        if row["n"] == 1 and networks[row["series"]].backbone == backbone
    }
    return next((found[name] for name in SAME_AS_PLAIN if name in found), None)
