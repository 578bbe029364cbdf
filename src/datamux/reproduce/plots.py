"""Pictures of the figures' records: accuracy against N, one line a series, the spread over indices as a band."""

from pathlib import Path
from typing import Any

from datamux.evaluate.plots import pyplot_without_window
from datamux.reproduce.paper import STATED
from datamux.reproduce.picture import draw_picture
from datamux.reproduce.table import rows_of

TITLES = {
    "mnist-mlp": "The paper's MLP on MNIST",
    "mnist-cnn": "The paper's CNN on MNIST",
    "mnist-cnn-kernels": "Multiplexers for the CNN, as published (dashed) and corrected",
    "mnist-speed": "Throughput on one thread, against the plain network",
    "mnist-beaten": "The same backbones, better mixing, unmixing and training",
}


def draw_figure(record: dict[str, Any], file: Path) -> None:
    """Draw a record, of whatever kind."""
    if record["kind"] == "picture":
        draw_picture(record, file)
        return
    pyplot = pyplot_without_window()
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    if record["kind"] == "pca":
        _draw_variance(record, axes)
    else:
        _draw_lines(record, axes)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def _draw_lines(record: dict[str, Any], axes: Any) -> None:
    rows = rows_of(record)
    sizes = sorted({row["n"] for row in rows})
    colours: dict[str, Any] = {}
    for name in dict.fromkeys(row["series"] for row in rows):
        own = sorted((row for row in rows if row["series"] == name), key=lambda row: row["n"])
        family = name.removesuffix("_as_published")
        x, y = [row["n"] for row in own], [row["value"] for row in own]
        style = {"linestyle": "--" if name != family else "-", "color": colours.get(family)}
        (line,) = axes.plot(x, y, marker="o", markersize=4, label=name.replace("_", " "), **style)
        colours[family] = line.get_color()
        low = [row["value"] - row["spread"] for row in own]
        high = [row["value"] + row["spread"] for row in own]
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    names = {row["series"] for row in rows}
    points = [s for s in STATED.get(record["figure"], ()) if s.n in sizes and s.series in names]
    for number, point in enumerate(points):
        colour = colours.get(point.series.removesuffix("_as_published"), "black")
        label = "stated in the paper or its notebook" if number == 0 else None
        axes.plot([point.n], [point.value], "*", color=colour, mec="black", markersize=13, label=label, zorder=5)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.set(xlabel="images a pass (N)", ylabel=rows[0]["metric"])
    axes.set_title(TITLES.get(record["figure"], record["figure"]))


def _draw_variance(record: dict[str, Any], axes: Any) -> None:
    for row in rows_of(record):
        shares = [100 * share for share in record["results"][row["series"]]]
        (line,) = axes.plot(range(1, len(shares) + 1), shares, label=row["series"].replace("_", " "))
        if row["paper"] is not None:
            axes.plot([50], [row["paper"]], "*", color=line.get_color(), mec="black", markersize=13, label="the paper")
    axes.axvline(50, color="gray", linestyle=":")
    axes.set(xlabel="principal components", ylabel="share of variance, %", ylim=(0, 101))
    axes.set_title("Variance of MNIST's 20x20 images in their leading components")
