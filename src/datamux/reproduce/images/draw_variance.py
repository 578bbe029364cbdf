"""The share of variance in the leading principal components."""

from typing import Any

from datamux.evaluate.plots import pyplot_without_window
from datamux.reproduce.images.measurements import COMPONENTS
from datamux.reproduce.images.rows import rows_of


def draw_variance(record: dict[str, Any]) -> Any:
    figure, axes = pyplot_without_window().subplots(figsize=(8, 5), layout="constrained")
    for row in rows_of(record):
        shares = [100 * share for share in record["results"][row["series"]]]
        (line,) = axes.plot(range(1, len(shares) + 1), shares, label=row["series"].replace("_", " "))
        below = row["paper"] is None
        place = {"xytext": (8, -14) if below else (-8, 8), "ha": "left" if below else "right"}
        text = f"{row['value']:.2f}% in {COMPONENTS}"
        axes.annotate(text, (COMPONENTS, row["value"]), textcoords="offset points", color=line.get_color(), **place)
        if not below:
            axes.plot(
                [COMPONENTS], [row["paper"]], "*", color=line.get_color(), mec="black", markersize=13, label="the paper"
            )
    axes.axvline(COMPONENTS, color="gray", linestyle=":")
    axes.set(xlabel="principal components", ylabel="share of variance, %", ylim=(0, 101))
    axes.set_title(f"Variance of 20x20 images in their leading components: {record['data']['source']}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure
