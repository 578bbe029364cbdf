"""What image plots share: one panel per backbone, one more for mixtures larger than one image, and the colours."""

from collections.abc import Iterable, Mapping
from typing import Any

from datamux.evaluate.plots import pyplot_without_window
from datamux.vision.networks import ImageNetwork

PANEL_TITLES = {
    ("mlp", False): "MLP",
    ("cnn", False): "CNN, mixtures as large as one image",
    ("cnn", True): "CNN, larger mixtures (4x, 8x)",
}
Panel = tuple[str, bool]
LINE: dict[str, Any] = {"marker": "o", "markersize": 4}
BARS: dict[str, Any] = LINE | {"capsize": 2}


def panel_of(network: ImageNetwork) -> Panel:
    return network.backbone, network.maps > 1


def panel_grid(networks: Iterable[ImageNetwork], rows: int, height: float) -> tuple[Any, Any, list[Panel]]:
    """A figure with one column of axes for each panel that these networks need, its axes, and these panels."""
    needed = {panel_of(network) for network in networks}
    panels = [panel for panel in PANEL_TITLES if panel in needed]
    look = {"figsize": (max(7, 5.2 * len(panels)), height), "squeeze": False, "layout": "constrained"}
    figure, grid = pyplot_without_window().subplots(rows, len(panels), sharey="row", **look)
    for axes, panel in zip(grid[0], panels, strict=True):
        axes.set_title(PANEL_TITLES[panel], fontsize=10)
    return figure, grid, panels


def looks(networks: Mapping[str, ImageNetwork]) -> dict[str, dict[str, Any]]:
    """A colour for every series of a panel. A published version is dashed and hollow, in the colour of the corrected
    one if that is in the panel too.
    """
    families = {
        name: next((other for other, network in networks.items() if network.corrects(published)), name)
        for name, published in networks.items()
    }
    order = list(dict.fromkeys(families.values()))
    colours = pyplot_without_window().get_cmap("tab10" if len(order) <= 10 else "tab20").colors
    return {
        name: {
            "color": colours[order.index(families[name])],
            "linestyle": "--" if network.published else "-",
            "markerfacecolor": "white" if network.published else None,
        }
        for name, network in networks.items()
    }


def label_of(series: str, network: ImageNetwork) -> str:
    """The name of a series in a legend, without the backbone, which the title of the panel says."""
    return series.removeprefix(f"{network.backbone} ").replace("_", " ")


def show_sizes(axes: Any, sizes: Iterable[int]) -> None:
    """N along the lower edge, each step twice the last."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(sizes), [str(n) for n in sorted(sizes)])
    axes.set_xlabel("images per pass (N)")


def legend_below(axes: Any, of: Any = None) -> None:
    """A legend under a panel, where it hides nothing; for what is drawn in it, or in another panel."""
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13)}
    handles = (of or axes).get_legend_handles_labels()
    axes.legend(*handles, fontsize=8, ncols=2, handlelength=3.5, frameon=False, **place)  # long enough to show dashes
