"""Pictures of the figures' records, of whatever kind. A title names the digits that were used."""

from pathlib import Path
from typing import Any

from datamux.evaluate.plots import pyplot_without_window, save_figure
from datamux.reproduce.lines import draw_accuracy
from datamux.reproduce.pca import COMPONENTS
from datamux.reproduce.picture import draw_picture
from datamux.reproduce.speed_plot import draw_speed
from datamux.reproduce.table import rows_of

TITLES = {
    "mnist-mlp": "The paper's MLP",
    "mnist-cnn": "The paper's CNN (dashed, hollow: as published)",
    "mnist-cnn-kernels": "Multiplexers for the CNN (dashed, hollow: as published)",
    "mnist-speed": "Throughput and accuracy",
    "mnist-beaten": "The same backbones, better mixing, unmixing and training",
}


def draw_figure(record: dict[str, Any], file: Path) -> None:
    """Draw a record into a file."""
    save_figure(figure_of(record), file)


def figure_of(record: dict[str, Any]) -> Any:
    """A record as a matplotlib figure."""
    if record["kind"] == "picture":
        return draw_picture(record)
    if record["kind"] == "pca":
        return _draw_variance(record)
    figure = draw_speed(record) if record["kind"] == "speed" else draw_accuracy(record)
    figure.suptitle(f"{TITLES[record['figure']]}: {record['data']['source']}")
    return figure


def _draw_variance(record: dict[str, Any]) -> Any:
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
