"""Images a second against N and, below, accuracy against images a second; one panel a backbone."""

from typing import Any

from datamux.evaluate.plots import pyplot_without_window
from datamux.reproduce.accuracy import ACCURACY
from datamux.reproduce.panels import TITLES, legend_below, looks, panel_of, panels_of, show_sizes
from datamux.reproduce.speed import PLAIN, RATE, speed_rows, timed_series, without_accuracy


def draw_speed(record: dict[str, Any]) -> Any:
    """The figure of a record of speeds."""
    pyplot = pyplot_without_window()
    rows = speed_rows(record)
    networks = {name: series.network for name, (_, series) in timed_series().items()}
    panels = panels_of(networks[row["series"]] for row in rows)
    figure, grid = pyplot.subplots(
        2, len(panels), figsize=(max(7, 5.2 * len(panels)), 9.5), squeeze=False, sharey="row", layout="constrained"
    )
    missing = without_accuracy(record)
    for panel, upper, lower in zip(panels, *grid, strict=True):
        own = [row for row in rows if panel_of(networks[row["series"]]) == panel]
        names = list(dict.fromkeys(row["series"] for row in own))
        plain = ": ".join(PLAIN[panel[0]])
        base = next((r["value"] for r in rows if (r["series"], r["n"], r["metric"]) == (plain, 1, RATE)), None)
        for name, look in looks(names).items():
            rates = {row["n"]: row for row in own if row["series"] == name and row["metric"] == RATE}
            scores = {row["n"]: row for row in own if row["series"] == name and row["metric"] == ACCURACY}
            _draw_rates(upper, name, rates, look)
            _draw_scores(lower, rates, scores, look)
        if base is not None:
            for draw in (upper.axhline, lower.axvline):
                draw(base, color="gray", linestyle=":", label="the plain network", zorder=0)
        upper.set_title(TITLES[panel], fontsize=10)
        upper.set_yscale("log")
        lower.set_xscale("log")
        lower.set_xlabel(f"{RATE} (small numbers: N)")
        show_sizes(upper, {row["n"] for row in rows})
        here = [name for name in missing if any(series.startswith(f"{name}: ") for series in names)]
        if here:
            lower.text(
                0.03, 0.03, f"no accuracy: {', '.join(here)}\nwithout a record", transform=lower.transAxes, fontsize=8
            )
        for axes in (upper, lower):
            axes.grid(alpha=0.3, which="both")
        legend_below(upper)
    grid[0][0].set_ylabel(f"{RATE}, one thread")
    grid[1][0].set_ylabel(ACCURACY)
    return figure


def _draw_rates(axes: Any, name: str, rates: dict[int, dict[str, Any]], look: dict[str, Any]) -> None:
    figure, _, series = name.partition(": ")
    label = f"{series.removeprefix('mlp ').removeprefix('cnn ')} ({figure.removeprefix('mnist-')})"
    values, spreads = ([row[key] for row in rates.values()] for key in ("value", "spread"))
    axes.errorbar(list(rates), values, spreads, label=label, marker="o", markersize=4, capsize=2, **look)


def _draw_scores(
    axes: Any, rates: dict[int, dict[str, Any]], scores: dict[int, dict[str, Any]], look: dict[str, Any]
) -> None:
    points = [(n, rates[n]["value"], scores[n]["value"]) for n in rates if n in scores]
    axes.plot([rate for _, rate, _ in points], [score for *_, score in points], marker="o", markersize=4, **look)
    for n, rate, score in points:
        axes.annotate(str(n), (rate, score), xytext=(3, 3), textcoords="offset points", fontsize=7)
