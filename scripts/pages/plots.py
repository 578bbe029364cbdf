"""The plots of the documentation. Each PNG keeps a digest of the records it shows, so that an old one is noticed."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image, PngImagePlugin

from datamux.evaluate.records import read_record
from datamux.reproduce.catalogue import EXPERIMENTS, choose
from datamux.reproduce.experiment import Experiment
from datamux.reproduce.figures import can_draw, draw
from datamux.reproduce.figures.growth import draw_growth
from datamux.reproduce.paper.all_figures import PAPER_FIGURES
from datamux.reproduce.paper.drawing import draw_paper_figure
from datamux.reproduce.paper.figure import PaperFigure
from datamux.reproduce.records import RESULTS

DOCS = Path(__file__).parents[2] / "docs"
# How the plots of a figure's experiments are named, if not FIGURE-EXPERIMENT.
NAMES = {"distilled-frontier": "frontier-distilled-{}", "encoder-frontier": "frontier-encoder-{}", "mnist": "{}"}


@dataclass(frozen=True)
class Plot:
    file: Path
    records: list[Path]
    draw: Callable[[Path], None]

    @property
    def digest(self) -> str:
        return hashlib.sha256(b"".join(record.read_bytes() for record in self.records)).hexdigest()

    def is_stale(self) -> bool:
        if not self.file.exists():
            return True
        with Image.open(self.file) as image:
            return image.info.get("records") != self.digest

    def redraw(self) -> None:
        self.draw(self.file)
        note = PngImagePlugin.PngInfo()
        note.add_text("records", self.digest)
        with Image.open(self.file) as image:
            image.load()
            image.save(self.file, pnginfo=note, optimize=True)


def stale_plots() -> list[Plot]:
    return [plot for plot in plots() if plot.is_stale()]


def plots() -> list[Plot]:
    found = [Plot(DOCS / "growth.png", _records("retrieval"), draw_growth)]
    for experiment in EXPERIMENTS.values():
        record = RESULTS / experiment.file_name(experiment.seeds[0])
        if can_draw(experiment.kind) and record.exists():
            shown = _records("mnist", "images") if experiment.kind == "image speed" else []  # it shows their accuracy
            file = DOCS / plot_name(experiment)
            found.append(Plot(file, [record, *shown], partial(draw, read_record(record))))
    for name, figure in PAPER_FIGURES.items():
        files = [RESULTS / e.file_name(seed) for e in _experiments(figure) for seed in e.recorded_seeds]
        present = [file for file in files if file.exists()]
        if present:
            found.append(Plot(DOCS / f"paper-{name}.png", present, partial(draw_paper_figure, figure)))
    return found


def _experiments(figure: PaperFigure) -> list[Experiment]:
    return [EXPERIMENTS[name] for name in figure.experiments]


def plot_name(experiment: Experiment) -> str:
    return f"{NAMES.get(experiment.figure, f'{experiment.figure}-{{}}').format(experiment.name)}.png"


def _records(figure: str, kind: str = "train") -> list[Path]:
    files = [RESULTS / e.file_name(seed) for e in choose(figure) if e.kind == kind for seed in e.recorded_seeds]
    return [file for file in files if file.exists()]
