"""The paper's figures of images. Each is one experiment on MNIST, and docs/vision.md shows it."""

from functools import partial

from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.images.rows import rows_of
from datamux.reproduce.paper.figure import PaperFigure, Row
from datamux.reproduce.records import recorded_by_name

WHERE = {
    "mnist-mlp": "Section 5, MLPs",
    "mnist-cnn": "Section 5, CNNs",
    "mnist-cnn-kernels": "Appendix, other strategies for CNNs",
    "mnist-pca": "Appendix, how many images should fit",
}


def _rows(name: str) -> list[Row]:
    return [row for record in recorded_by_name(name) for row in rows_of(record)]


def _figure(name: str, where: str) -> PaperFigure:
    experiment = EXPERIMENTS[f"mnist/{name}"]
    return PaperFigure(name, where, experiment.about, (experiment.id,), partial(_rows, name))


IMAGE_FIGURES: dict[str, PaperFigure] = {name: _figure(name, where) for name, where in WHERE.items()}
