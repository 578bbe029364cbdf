"""The picture of a load test's record: latency against throughput, one line per server."""

from pathlib import Path
from typing import Any

from datamux.evaluate.plots import pyplot_without_window, save_figure


def draw_serve(record: dict[str, Any], file: Path) -> None:
    """One panel per number of texts per request. Every point is a step of the load, marked with its users."""
    pyplot = pyplot_without_window()
    from matplotlib.ticker import LogLocator

    settings = record["settings"]
    batches, bound = settings["texts_per_request"], settings["latency_ms"]
    figure, panels = pyplot.subplots(
        1, len(batches), figsize=(1 + 5 * len(batches), 4.5), layout="constrained", squeeze=False
    )
    for axes, batch in zip(panels[0], batches, strict=True):
        for place, server in enumerate(settings["servers"]):
            rows = [r for r in record["results"] if r["server"] == server and r["texts_per_request"] == batch]
            rows = sorted((r for r in rows if r["p95"] is not None), key=lambda r: r["users"])
            rates, tails = [r["texts_per_second"] for r in rows], [r["p95"] for r in rows]
            spread = [
                [r["texts_per_second"] - r["lowest"] for r in rows],
                [r["highest"] - r["texts_per_second"] for r in rows],
            ]
            axes.errorbar(rates, tails, xerr=spread, fmt="o-", capsize=3, color=f"C{place}", label=f"{server}, p95")
            axes.plot(rates, [r["p50"] for r in rows], ":", color=f"C{place}", label=f"{server}, p50")
            for rate, tail, row in zip(rates, tails, rows, strict=True):
                axes.annotate(str(row["users"]), (rate, tail), (4, 4), textcoords="offset points", fontsize=8)
        axes.axhline(bound, linestyle="--", color="gray", linewidth=1, label=f"{bound:g} ms")
        for scale in (axes.set_xscale, axes.set_yscale):
            scale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:,.0f}")  # 2,000, not 2 x 10^3
            axis.set_minor_formatter("")
        axes.set(xlabel="texts per second", ylabel="milliseconds per request")
        axes.set_title("single texts" if batch == 1 else f"batches of {batch}", fontsize=10)
        axes.grid(alpha=0.3, which="both")
    figure.suptitle("Whole servers under rising load (numbers: users)", fontsize=10)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    save_figure(figure, file)
