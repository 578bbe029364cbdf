"""Accuracy against N: one line per series, its spread over indices as bars, one dot per slot, and the paper's numbers.

The paper's numbers are stars in the colour of their series, its bounds are triangles, the spreads it states are black
bars. Where our series takes the place of another one of the paper's, the star is white and has that one's name beside
it.
"""

from math import log, nan
from typing import Any

from datamux.reproduce.images import panels
from datamux.reproduce.images.measurements import ACCURACY
from datamux.reproduce.images.rows import accuracy_rows
from datamux.reproduce.images.stated import Stated, stated
from datamux.vision.networks import ImageNetwork

STEP = 0.045  # of a doubling of N: neighbouring series stand this far apart, so that their bars can be told apart,
WIDEST = 0.25  # and all of them together are at most this wide
MARKS = {"exact": "*", "about": "*", "above": "^"}
MARK_SIZES = {"*": 13, "^": 9}
MEANINGS = {"*": "stated in the paper or its notebook", "^": "the paper: above this"}
SPREAD = "spread stated by the paper"  # about our mean, where it states no mean
SAME_AS_PLAIN = ("identity", "rotation", "rotation_as_published")  # at N = 1


def draw_accuracy(record: dict[str, Any]) -> Any:
    """The figure of a record of trained networks."""
    networks = {name: ImageNetwork(**settings["network"]) for name, settings in record["recipe"].items()}
    rows = accuracy_rows(record)
    figure, grid, shown_panels = panels.panel_grid((networks[row["series"]] for row in rows), rows=1, height=6)
    more = max(row["n"] for row in rows) > 1  # then a series with only N = 1 is a line across
    lines = [row for row in rows if not (more and _is_only_plain(rows, networks, row["series"]))]
    sizes = sorted({row["n"] for row in lines})
    for axes, panel in zip(grid[0], shown_panels, strict=True):
        panel_rows = [row for row in lines if panels.panel_of(networks[row["series"]]) == panel]
        panels.show_sizes(axes, sizes)
        axes.set_xlim(0.8 * sizes[0], 1.25 * sizes[-1])
        _draw_panel(record, panel_rows, networks, sizes, axes)
        plain = _plain(rows, networks, panel)
        if plain is not None:
            axes.axhline(plain, color="gray", linestyle=":", label=f"one image per pass: {plain:.1f}", zorder=0)
        axes.grid(alpha=0.3)
        panels.legend_below(axes)
    grid[0][0].set_ylabel(f"{ACCURACY}\n(bars: spread over indices; dots: every slot of every seed)")
    return figure


def _draw_panel(
    record: dict[str, Any],
    rows: list[dict[str, Any]],
    networks: dict[str, ImageNetwork],
    sizes: list[int],
    axes: Any,
) -> None:
    shown = {row["series"]: networks[row["series"]] for row in rows}
    step = min(STEP, WIDEST / max(1, len(shown)))
    for number, (name, look) in enumerate(panels.looks(shown).items()):
        aside = 2 ** (step * (number - (len(shown) - 1) / 2))
        points = {row["n"]: row for row in rows if row["series"] == name}
        line = [n for n in sizes if min(points) <= n <= max(points)]  # broken where a size between was not run
        values, spreads = ([points[n][key] if n in points else nan for n in line] for key in ("value", "spread"))
        places = [n * aside for n in line]
        axes.errorbar(
            places, values, spreads, label=panels.label_of(name, shown[name]), elinewidth=1, **look, **panels.BARS
        )
        slots = [(r["n"], 100 * slot) for r in record["results"] if r["series"] == name for slot in r["slots"]]
        dots = [(n * aside * 2 ** (-step / 3), slot) for n, slot in slots]
        axes.scatter(*zip(*dots, strict=True), s=6, color=look["color"], alpha=0.4, linewidths=0)
        for n, row in points.items():
            said = stated(record, name, n)
            if said is not None:
                _draw_stated(axes, said, n * aside, row["value"], look["color"], step)
        if shown[name].multiplexer == "identity" and max(points) > 1:
            axes.plot(sizes, [100 / n for n in sizes], color="black", lw=0.7, ls=(0, (1, 3)), label="1/N")


def _draw_stated(axes: Any, said: Stated, x: float, ours: float, colour: Any, step: float) -> None:
    """What the paper says of a point."""
    labels = axes.get_legend_handles_labels()[1]
    if said.value is not None:
        mark = MARKS[said.kind]
        if MEANINGS[mark] not in labels:
            axes.plot([], [], mark, color="white", mec="black", markersize=MARK_SIZES[mark], label=MEANINGS[mark])
        fill = "white" if said.of else colour
        axes.plot([x], [said.value], mark, color=fill, mec="black", markersize=MARK_SIZES[mark], zorder=5)
    if said.of:
        name = f"the paper's {said.of.replace('_', ' ')}"
        low, high = map(log, axes.get_xlim())
        right = log(x) - low < 0.75 * (high - low)  # there is room for it on that side
        place = {"xytext": (9 if right else -9, -3), "ha": "left" if right else "right"}
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8}
        axes.annotate(name, (x, said.value), textcoords="offset points", fontsize=8, bbox=box, **place)
    if said.most_spread is not None:
        middle = ours if said.value is None else said.value
        label = None if SPREAD in labels else SPREAD
        bar = {"fmt": "none", "ecolor": "black", "elinewidth": 0.8, "capsize": 4, "zorder": 4}
        axes.errorbar([x * 2 ** (step / 3)], [middle], [said.most_spread], label=label, **bar)


def _is_only_plain(rows: list[dict[str, Any]], networks: dict[str, ImageNetwork], name: str) -> bool:
    """Whether a series is only the line of the plain network."""
    return networks[name].multiplexer in SAME_AS_PLAIN and {row["n"] for row in rows if row["series"] == name} == {1}


def _plain(rows: list[dict[str, Any]], networks: dict[str, ImageNetwork], panel: panels.Panel) -> float | None:
    """What the network without multiplexing reaches, if the record has it."""
    backbone, _ = panel
    found = {
        networks[row["series"]].multiplexer: row["value"]
        for row in rows
        if row["n"] == 1 and networks[row["series"]].backbone == backbone
    }
    return next((found[name] for name in SAME_AS_PLAIN if name in found), None)
