"""The paper's figures of speed, memory, indices, anchors and theory, from the records of those measurements."""

from statistics import fmean
from typing import Any

import numpy as np

from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.catalogue.mini import SIZES
from datamux.reproduce.paper.drawing import draw_anchors
from datamux.reproduce.paper.figure import PaperFigure, Row, row
from datamux.reproduce.paper.text_figures import INDEXED_PAPER, METRICS, PAPER
from datamux.reproduce.records import recorded
from datamux.reproduce.spread import spread_of

SPEEDS = {"12L/768H": "12l-768h", "12L/384H": "12l-384h", "4L/768H": "4l-768h"}
STATED = {("12L/768H", 20): 11.0, ("12L/768H", 40): 18.0, ("12L/384H", 20): 25.0, ("4L/768H", 20): 25.0}
TIMES = "times the throughput of the plain 12L/768H"
SPREAD, BY_CHANCE = "best index minus worst, points", "best index minus worst that chance gives, points"
INDEXED = {
    INDEXED_PAPER: {n: f"mini-sst2/hadamard-index-n{n}" for n in SIZES},
    f"{PAPER}, MNLI": {n: f"mini-mnli/hadamard-index-n{n}" for n in SIZES},
    "ours, SST-2": dict.fromkeys(SIZES, "mini-sst2/ours-n10"),
    "ours, 4L/256H, SST-2": dict.fromkeys((2, 5, 10, 20), "sst2/scratch-n20"),
}
INDEXED_METRICS = {series: METRICS["mnli" if "MNLI" in series else "sst2"] for series in INDEXED}
ANCHORS = {n: f"anchors/hadamard-index-n{n}" for n in SIZES} | {0: "anchors/ours-n10", -1: "anchors/sentiment"}


def _record(name: str) -> dict[str, Any] | None:
    found = recorded(EXPERIMENTS[name])
    return found[0] if found else None


def throughput_rows() -> list[Row]:
    """As in the paper: everything against the plain model of 12L/768H. The paper's numbers are of one RTX 2080."""
    rows: list[Row] = []
    base: float | None = None
    for shape, name in SPEEDS.items():
        record = _record(f"speed/{name}-128-tokens")
        for result in record["results"] if record else ():
            base = base or result["rate"]
            demultiplexer, k = result["about"]["demultiplexer"], result["group_size"]
            series = f"{shape}, {demultiplexer or 'plain'}"
            like_the_paper = demultiplexer == "index" or shape != "12L/768H"
            spread = spread_of([ratio * result["rate"] / result["ratio"] / base for ratio in result["ratios"]])
            paper = STATED.get((shape, k)) if like_the_paper else None
            rows.append(row(series, k, TIMES, result["rate"] / base, spread, 1, paper))
    return rows


def memory_rows() -> list[Row]:
    rows = []
    for series, name in {"index (the paper's)": "12l-768h-index", "gate (ours)": "12l-768h"}.items():
        record = _record(f"memory/{name}")
        if record is None:
            continue
        prefix = record["settings"]["demultiplexer"] == "index"
        for result in record["results"]:
            paper = 4.0 if result["group_size"] == 40 and prefix else None
            spread = (result.get("highest", result["ratio"]) - result.get("lowest", result["ratio"])) / 2
            rows.append(
                row(series, result["group_size"], "times the memory at N = 1", result["ratio"], spread, 1, paper)
            )
    return rows


def index_rows() -> list[Row]:
    """How far the indices are apart: the best and the worst of the slots, averaged over seeds; and the score itself."""
    rows = []
    for series, points in INDEXED.items():
        for n, name in points.items():
            found = [r for record in recorded(EXPERIMENTS[name]) for r in record["results"] if r["group_size"] == n]
            slots = [[100 * s for s in r["slots"] if s is not None] for r in found]
            if slots:
                apart = [max(some) - min(some) for some in slots]
                rows.append(row(series, n, SPREAD, fmean(apart), spread_of(apart), len(apart)))
                chance = [_chance(r) for r in found]
                rows.append(row(series, n, BY_CHANCE, fmean(chance), spread_of(chance), len(chance)))
                scores = [100 * r["score"] for r in found]
                rows.append(row(series, n, INDEXED_METRICS[series], fmean(scores), spread_of(scores), len(scores)))
    return rows


def _chance(result: dict[str, Any], draws: int = 2000) -> float:
    """How far the best and the worst of equal indices lie apart in the mean, for as many rows as each index had."""
    share, n = result["score"], result["group_size"]
    error = (share * (1 - share) * n / (result["rows"] * result["groupings"])) ** 0.5
    draw = np.random.default_rng(0).normal(0.0, error, (draws, n))
    return float(100 * (draw.max(1) - draw.min(1)).mean())


def recorded_rows(*names: str) -> list[Row]:
    """The rows that a record holds itself."""
    return [found for name in names for found in (_record(name) or {"rows": []})["rows"]]


MEASURED_FIGURES: tuple[PaperFigure, ...] = (
    PaperFigure(
        "throughput",
        "Figure 4c, (R3), and the appendix on throughput",
        "Throughput of three model sizes, against N",
        tuple(f"speed/{name}-128-tokens" for name in SPEEDS.values()),
        throughput_rows,
    ),
    PaperFigure(
        "anchors",
        "Figure 6, (A4)",
        "The same texts among different neighbours, after PCA and t-SNE",
        tuple(ANCHORS.values()),
        lambda: recorded_rows(*ANCHORS.values()),
        draw=draw_anchors,
    ),
    PaperFigure(
        "indices",
        "Figure 7b, (A3)",
        "How much the indices differ, against N",
        tuple(dict.fromkeys(name for points in INDEXED.values() for name in points.values())),
        index_rows,
    ),
    PaperFigure(
        "theory",
        "Section 4.4 and the appendix on the construction",
        "The constructed attention separates exactly, and what breaks it",
        ("theory/construction",),
        lambda: recorded_rows("theory/construction"),
    ),
    PaperFigure(
        "memory-overhead",
        "Appendix, memory overhead",
        "Memory of one pass, against N",
        ("memory/12l-768h-index", "memory/12l-768h"),
        memory_rows,
    ),
)
