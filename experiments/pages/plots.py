"""The pictures of the records. Each PNG keeps a digest of what it shows, so that one that is out of date is noticed."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image, PngImagePlugin

from datamux.evaluate.plots import draw_frontier, draw_speed
from datamux.evaluate.records import read_record
from datamux.reproduce.plots import draw_figure
from pages.common import DOCS, RESULTS, ROOT
from pages.quality import draw_growth

REPRODUCED = ROOT / "src" / "datamux" / "reproduce" / "results"


@dataclass(frozen=True)
class Plot:
    file: Path
    records: list[Path]
    draw: Callable[[Path], None]

    @property
    def digest(self) -> str:
        return hashlib.sha256(b"".join(record.read_bytes() for record in self.records)).hexdigest()

    def stale(self) -> bool:
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
    return [plot for plot in _plots() if plot.stale()]


def _plots() -> list[Plot]:
    plots = [Plot(DOCS / "growth.png", sorted((RESULTS / "wikipedia_en").glob("*.json")), draw_growth)]
    for record in sorted((RESULTS / "frontier").glob("*.json")):
        plots.append(_of(f"frontier-{record.stem}", record, draw_frontier))
    for record in sorted((RESULTS / "taught").glob("*.json")):
        plots.append(_of(f"frontier-taught-{record.stem}", record, draw_frontier))
    for record in sorted((RESULTS / "speed").glob("*.json")):
        if read_record(record)["kind"] == "speed":
            plots.append(_of(f"speed-{record.stem}", record, draw_speed))
    every = sorted(REPRODUCED.glob("*.json"))
    for record in every:  # that of the speeds shows the accuracy of the others, too
        plots.append(_of(record.stem, record, draw_figure, every if record.stem == "mnist-speed" else None))
    return plots


def _of(name: str, record: Path, draw: Callable[[dict, Path], None], shown: list[Path] | None = None) -> Plot:
    return Plot(DOCS / f"{name}.png", shown or [record], partial(draw, read_record(record)))
