"""Images per second against N and, below, accuracy against images per second; one panel per backbone."""

from typing import Any

from datamux.reproduce.images import panels
from datamux.reproduce.images.measurements import ACCURACY, PLAIN, timed_series
from datamux.reproduce.images.rows import RATE, speed_rows, without_accuracy
from datamux.vision.networks import ImageNetwork

Rows = list[dict[str, Any]]


def draw_image_speed(record: dict[str, Any]) -> Any:
    """The figure of a record of speeds. Without any accuracy there is no lower half, and a line says so."""
    rows = speed_rows(record)
    networks = {name: series.network for name, series in timed_series().items()}
    halves = 2 if any(row["metric"] == ACCURACY for row in rows) else 1
    figure, grid, shown_panels = panels.panel_grid((networks[row["series"]] for row in rows), halves, 5 * halves)
    for column, panel in enumerate(shown_panels):
        panel_rows = [row for row in rows if panels.panel_of(networks[row["series"]]) == panel]
        plain = _plain_rate(rows, panel[0])
        _draw_rates(grid[0][column], panel_rows, networks, plain)
        panels.show_sizes(grid[0][column], {row["n"] for row in rows})
        if halves == 2:
            _draw_scores(grid[1][column], panel_rows, networks, plain)
        panels.legend_below(grid[-1][column], of=grid[0][column])
    for axes in grid.flat:
        axes.grid(alpha=0.3, which="both")
    grid[0][0].set_ylabel(f"{RATE}, one thread")
    if halves == 2:
        grid[1][0].set_ylabel(ACCURACY)
    missing = without_accuracy(record)
    if missing:
        figure.supxlabel(f"no accuracy: there is no record of these digits for {', '.join(missing)}", fontsize=9)
    return figure


def _plain_rate(rows: Rows, backbone: str) -> float | None:
    plain = (PLAIN[backbone], 1, RATE)
    return next((row["value"] for row in rows if (row["series"], row["n"], row["metric"]) == plain), None)


def _draw_rates(axes: Any, rows: Rows, networks: dict[str, ImageNetwork], plain: float | None) -> None:
    for name, look in panels.looks({row["series"]: networks[row["series"]] for row in rows}).items():
        points = _points(rows, name, RATE)
        values, spreads = ([row[key] for row in points.values()] for key in ("value", "spread"))
        figure, _, series = name.partition(": ")
        label = f"{panels.label_of(series, networks[name])} ({figure.removeprefix('mnist-')})"
        axes.errorbar(list(points), values, spreads, label=label, **look, **panels.BARS)
    if plain is not None:
        axes.axhline(plain, color="gray", linestyle=":", label="the plain network", zorder=0)
    axes.set_yscale("log")


def _draw_scores(axes: Any, rows: Rows, networks: dict[str, ImageNetwork], plain: float | None) -> None:
    for name, look in panels.looks({row["series"]: networks[row["series"]] for row in rows}).items():
        rates, scores = (_points(rows, name, metric) for metric in (RATE, ACCURACY))
        points = [(n, rates[n]["value"], scores[n]["value"]) for n in rates if n in scores]
        axes.plot([rate for _, rate, _ in points], [score for *_, score in points], **look, **panels.LINE)
        for n, rate, score in points:
            axes.annotate(str(n), (rate, score), xytext=(3, 3), textcoords="offset points", fontsize=7)
    if plain is not None:
        axes.axvline(plain, color="gray", linestyle=":", zorder=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(_thousands)
    axes.xaxis.set_minor_formatter(_thousands)
    axes.tick_params(axis="x", which="both", labelsize=8)
    axes.set_xlabel(f"{RATE} (small numbers: N)")


def _thousands(rate: float, place: int | None = None) -> str:
    """The label of a tick: 1, 2, 3 and 5 of each power of ten have one."""
    return f"{rate / 1000:,g}k" if f"{rate:e}"[0] in "1235" else ""


def _points(rows: Rows, series: str, metric: str) -> dict[int, dict[str, Any]]:
    return {row["n"]: row for row in rows if (row["series"], row["metric"]) == (series, metric)}
