"""All figures of the paper that are about texts, by name, in the paper's order; then two of ours, about equal cost."""

from datamux.errors import check_choice
from datamux.reproduce.paper.cost import COST_FIGURE
from datamux.reproduce.paper.figure import PaperFigure
from datamux.reproduce.paper.measured_figures import MEASURED_FIGURES
from datamux.reproduce.paper.text_figures import TEXT_FIGURES

ORDER = (
    *("tasks", "retrieval-accuracy", "throughput", "warm-up"),
    *("heads", "smaller-models", "indices", "anchors", "theory"),
    *("seeds", "keys", "mlp-demultiplexer", "sizes", "memory-overhead", "equal-cost", "cost-model"),
)
_FOUND = {figure.name: figure for figure in (*TEXT_FIGURES, *MEASURED_FIGURES, COST_FIGURE)}
PAPER_FIGURES: dict[str, PaperFigure] = {name: _FOUND[name] for name in ORDER}


def figure(name: str) -> PaperFigure:
    check_choice("figure of the paper", name, PAPER_FIGURES)
    return PAPER_FIGURES[name]
