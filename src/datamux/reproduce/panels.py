"""What the plots of figures share: one panel a backbone, a further one for mixtures larger than one image; colours."""

from collections.abc import Iterable
from typing import Any

from datamux.evaluate.plots import pyplot_without_window
from datamux.train.image_networks import ImageNetwork

PANEL_TITLES = {
    ("mlp", False): "MLP",
    ("cnn", False): "CNN, mixtures as large as one image",
    ("cnn", True): "CNN, larger mixtures (4x, 8x)",
}
Panel = tuple[str, bool]


def panel_of(network: ImageNetwork) -> Panel:
    return network.backbone, network.maps > 1


def panels_of(networks: Iterable[ImageNetwork]) -> list[Panel]:
    """The panels that these networks need, in their order."""
    there = {panel_of(network) for network in networks}
    return [panel for panel in PANEL_TITLES if panel in there]


def looks(names: list[str]) -> dict[str, dict[str, Any]]:
    """A colour for every series of a panel, none twice; as published is dashed and hollow, in the colour of what is
    corrected.
    """
    families = list(dict.fromkeys(name.removesuffix("_as_published") for name in names))
    colours = pyplot_without_window().get_cmap("tab10" if len(families) <= 10 else "tab20").colors
    return {
        name: {
            "color": colours[families.index(name.removesuffix("_as_published"))],
            "linestyle": "--" if name.endswith("_as_published") else "-",
            "markerfacecolor": "white" if name.endswith("_as_published") else None,
        }
        for name in names
    }


def label_of(series: str) -> str:
    """A series in a legend, whose panel says the backbone."""
    return series.removeprefix("mlp ").removeprefix("cnn ").replace("_", " ")


def show_sizes(axes: Any, sizes: Iterable[int]) -> None:
    """N along the lower edge, each step twice the last."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(sizes), [str(n) for n in sorted(sizes)])
    axes.set_xlabel("images a pass (N)")


def legend_below(axes: Any, of: Any = None) -> None:
    """Under a panel, where it hides nothing; of what is in it, or in another."""
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13)}
    handles = (of or axes).get_legend_handles_labels()
    axes.legend(*handles, fontsize=8, ncols=2, handlelength=3.5, frameon=False, **place)  # long enough to show dashes
