"""Every figure and table, drawn from records only. A section is the text of a table: `datamux reproduce --show` prints
it, and docs/results.md is made of them, in this order.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from datamux.evaluate.plots import draw_frontier, draw_speed, save_figure
from datamux.reproduce.figures.ablations import ablation_section
from datamux.reproduce.figures.aims import quality_aim_rows, quality_aims, speed_aim_rows, speed_aims
from datamux.reproduce.figures.audits import audit_section
from datamux.reproduce.figures.benchmarks import breakdown_section, memory_section, speed_section
from datamux.reproduce.figures.cluster import cluster_section
from datamux.reproduce.figures.control import control_section
from datamux.reproduce.figures.frontiers import (
    distilled_frontier_section,
    encoder_frontier_section,
    frontier_section,
)
from datamux.reproduce.figures.growth import growth_rows, growth_section
from datamux.reproduce.figures.packaged import packaged_section
from datamux.reproduce.figures.quality import quality_section
from datamux.reproduce.figures.serving import serving_section, soak_section
from datamux.reproduce.figures.stored_rows import rows_section
from datamux.reproduce.figures.successors import successors_section
from datamux.reproduce.figures.tuning import draw_tuning, tuning_section
from datamux.reproduce.images.draw_accuracy import draw_accuracy
from datamux.reproduce.images.draw_picture import draw_picture
from datamux.reproduce.images.draw_speed import draw_image_speed
from datamux.reproduce.images.draw_variance import draw_variance
from datamux.reproduce.images.rows import image_lines
from datamux.reproduce.records import Groups, Record
from datamux.reproduce.tables import TITLES
from datamux.serve.load.plot import draw_serve

ABOUT_ANCHORS = (
    "Ten texts were each put among thirty sets of neighbours. The table says how far the representations of one text "
    "spread, how often the nearest representation is of the same text, and how alike different texts are."
)
ABOUT_THEORY = (
    "The paper's attention layer keeps sequences apart exactly. The table says how much of a sequence's output depends "
    "on the other sequences, for that construction and for three changes that break it."
)
SECTIONS: dict[str, Callable[[Groups], list[str]]] = {
    **{figure: partial(quality_section, figure) for figure in TITLES},
    "quality-aims": quality_aims,
    "neighbour-control": control_section,
    "frontier": frontier_section,
    "distilled-frontier": distilled_frontier_section,
    "encoder-frontier": encoder_frontier_section,
    "tune": tuning_section,
    "growth": growth_section,
    "warmup-ablation": partial(ablation_section, "warmup-ablation"),
    "task-ablation": partial(ablation_section, "task-ablation"),
    "speed": speed_section,
    "memory": memory_section,
    "breakdown": breakdown_section,
    "serve": serving_section,
    "soak": soak_section,
    "cluster": cluster_section,
    "speed-aims": speed_aims,
    "packaged-models": packaged_section,
    "audit": audit_section,
    "anchors": partial(rows_section, "The same texts among different neighbours", ABOUT_ANCHORS),
    "theory": partial(rows_section, "The paper's construction, and what breaks it", ABOUT_THEORY),
    "mnist": image_lines,
    "successors": successors_section,
}
# Sections that have no experiments of their own -> the figure whose records they show; empty: they read several.
DERIVED = {"quality-aims": "", "growth": "retrieval", "speed-aims": ""}
DERIVED_ROWS: dict[str, Callable[[Groups], list[dict[str, Any]]]] = {  # what they show, for scripts
    "quality-aims": lambda groups: quality_aim_rows(),
    "growth": growth_rows,
    "speed-aims": lambda groups: speed_aim_rows(),
}
IMAGE_TITLES = {
    "mnist-mlp": "The paper's MLP",
    "mnist-cnn": "The paper's CNN (dashed, hollow: as published)",
    "mnist-cnn-kernels": "Multiplexers for the CNN (dashed, hollow: as published)",
    "mnist-speed": "Throughput and accuracy",
    "mnist-ours": "The same backbones, better mixing, unmixing and training",
}


IMAGE_DRAWINGS: dict[str, Callable[[Record], Any]] = {
    "images": draw_accuracy,
    "image speed": draw_image_speed,
    "pca": draw_variance,
    "picture": draw_picture,
}
DRAWINGS: dict[str, Callable[[Record, Path], None]] = {
    "frontier": draw_frontier,
    "speed": draw_speed,
    "serve": draw_serve,
    "tune": draw_tuning,
    **dict.fromkeys(IMAGE_DRAWINGS, lambda record, file: save_figure(image_figure(record), file)),
}


def draw(record: Record, file: Path) -> None:
    """Draw a record into a file."""
    DRAWINGS[record["kind"]](record, file)


def can_draw(kind: str) -> bool:
    """Whether there is a picture of an experiment of this kind."""
    return kind in DRAWINGS


def image_figure(record: Record) -> Any:
    """An image record as a matplotlib figure, whose title names the digits that were used."""
    figure = IMAGE_DRAWINGS[record["kind"]](record)
    title = IMAGE_TITLES.get(record["experiment"].rpartition("/")[2])
    if title:
        figure.suptitle(f"{title}: {record['data']['source']}")
    return figure
