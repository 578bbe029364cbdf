"""Images a second against N and, below, accuracy against images a second; one panel a backbone."""

from typing import Any

from datamux.evaluate.plots import pyplot_without_window
from datamux.reproduce.accuracy import ACCURACY
from datamux.reproduce.panels import PANEL_TITLES, label_of, legend_below, looks, panel_of, panels_of, show_sizes
from datamux.reproduce.speed import PLAIN, RATE, speed_rows, timed_series, without_accuracy

Rows = list[dict[str, Any]]


def draw_speed(record: dict[str, Any]) -> Any:
    """The figure of a record of speeds. Without any accuracy there is no lower half, and a line says so."""
    pyplot = pyplot_without_window()
    rows = speed_rows(record)
    networks = {name: series.network for name, (_, series) in timed_series().items()}
    panels = panels_of(networks[row["series"]] for row in rows)
    halves = 2 if any(row["metric"] == ACCURACY for row in rows) else 1
    size = (max(7, 5.2 * len(panels)), 5 * halves)
    figure, grid = pyplot.subplots(halves, len(panels), figsize=size, squeeze=False, sharey="row", layout="constrained")
    for column, panel in enumerate(panels):
        own = [row for row in rows if panel_of(networks[row["series"]]) == panel]
        plain = _plain_rate(rows, panel[0])
        _draw_rates(grid[0][column], own, plain)
        show_sizes(grid[0][column], {row["n"] for row in rows})
        grid[0][column].set_title(PANEL_TITLES[panel], fontsize=10)
        if halves == 2:
            _draw_scores(grid[1][column], own, plain)
        legend_below(grid[-1][column], of=grid[0][column])
    for axes in grid.flat:
        axes.grid(alpha=0.3, which="both")
    grid[0][0].set_ylabel(f"{RATE}, one thread")
    if halves == 2:
        grid[1][0].set_ylabel(ACCURACY)
    missing = without_accuracy(record)
    if missing:
        figure.supxlabel(f"no accuracy: no record of these digits for {', '.join(missing)}", fontsize=9)
    return figure


def _plain_rate(rows: Rows, backbone: str) -> float | None:
    plain = (": ".join(PLAIN[backbone]), 1, RATE)
    return next((row["value"] for row in rows if (row["series"], row["n"], row["metric"]) == plain), None)


def _draw_rates(axes: Any, rows: Rows, plain: float | None) -> None:
    for name, look in looks(list(dict.fromkeys(row["series"] for row in rows))).items():
        own = _points(rows, name, RATE)
        values, spreads = ([row[key] for row in own.values()] for key in ("value", "spread"))
        figure, _, series = name.partition(": ")
        label = f"{label_of(series)} ({figure.removeprefix('mnist-')})"
        axes.errorbar(list(own), values, spreads, label=label, marker="o", markersize=4, capsize=2, **look)
    if plain is not None:
        axes.axhline(plain, color="gray", linestyle=":", label="the plain network", zorder=0)
    axes.set_yscale("log")


def _draw_scores(axes: Any, rows: Rows, plain: float | None) -> None:
    for name, look in looks(list(dict.fromkeys(row["series"] for row in rows))).items():
        rates, scores = (_points(rows, name, metric) for metric in (RATE, ACCURACY))
        points = [(n, rates[n]["value"], scores[n]["value"]) for n in rates if n in scores]
        axes.plot([rate for _, rate, _ in points], [score for *_, score in points], marker="o", markersize=4, **look)
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
