"""The numbers that the paper and its published notebook state for MNIST, in percent, and where they state them.

The paper's figures were drawn without tables, so there are few. "About" and "above" are in the words of `where`.
"""

from dataclasses import dataclass

TEXT = "section on MLPs and CNNs"
NOTEBOOK = "published notebook, stored output"
APPENDIX = "appendix on other strategies for CNNs"


@dataclass(frozen=True)
class Stated:
    series: str
    n: int
    value: float
    where: str


STATED: dict[str, tuple[Stated, ...]] = {
    "mnist-mlp": (
        Stated("identity", 1, 95.0, f"{TEXT}: about 95%"),
        Stated("ortho", 8, 78.0, f"{TEXT}: about 78%"),
        Stated("low_rank", 8, 83.0, f"{TEXT}: 5% above ortho"),
    ),
    "mnist-cnn": (
        Stated("identity", 1, 97.61, f"{NOTEBOOK}, 6 maps in the first layer, 10 epochs"),
        Stated("ortho", 8, 56.0, f"{TEXT}: about 56%"),
        Stated("nonlinear_as_published", 2, 93.57, f"{NOTEBOOK}: 91.58 and 95.56"),
        Stated("nonlinear_as_published", 4, 80.0, f"{TEXT}: above 80%"),
    ),
    "mnist-cnn-kernels": (
        Stated("rotation_as_published", 1, 97.95, f"{NOTEBOOK}, 12 epochs"),
        Stated("nonlinear_as_published", 2, 93.57, f"{NOTEBOOK}: 91.58 and 95.56"),
        Stated("nonlinear_as_published", 4, 80.0, f"{APPENDIX}: above 80%"),
        Stated("nonlinear_8x_as_published", 1, 98.58, NOTEBOOK),
        Stated("nonlinear_8x_as_published", 2, 97.38, NOTEBOOK),
        Stated("nonlinear_8x_as_published", 4, 94.67, NOTEBOOK),
        Stated("nonlinear_8x_as_published", 8, 83.65, NOTEBOOK),
        Stated("nonlinear_8x_as_published", 16, 53.30, NOTEBOOK),
    ),
    "mnist-pca": (Stated("as_published", 8, 86.54, "appendix on the design of the MNIST experiments"),),
}


def stated(figure: str, series: str, n: int) -> float | None:
    """What the paper says of this point, if it says anything."""
    return next((s.value for s in STATED.get(figure, ()) if (s.series, s.n) == (series, n)), None)
