"""Figures of the paper with rows of a test's own, so that the rules see the numbers that the test wants."""

from dataclasses import replace

from datamux.reproduce.paper import text_figures
from datamux.reproduce.paper.all_figures import PAPER_FIGURES
from datamux.reproduce.paper.figure import row

METRIC = text_figures.METRICS["sst2"]


def with_rows(monkeypatch, name, rows):
    monkeypatch.setitem(PAPER_FIGURES, name, replace(PAPER_FIGURES[name], rows=lambda: rows))


def tasks(plain, paper, metric=METRIC):
    series = [("plain", 1, plain), (text_figures.OUR_PLAIN, 1, plain)]
    series += [(text_figures.PAPER, n, score) for n, score in zip((2, 5, 10), paper, strict=True)]
    return [row(name, n, metric, score) for name, n, score in series]


def lines(metric, **series):
    """Rows of series over the sizes of the mini scale; a score may be (score, spread, seeds)."""
    sizes = (2, 5, 10)
    wide = [s if isinstance(s, tuple) else (s, 0.0, 1) for scores in series.values() for s in scores]
    names = [(name.replace("_", " "), n) for name in series for n in sizes]
    return [row(name, n, metric, *score) for (name, n), score in zip(names, wide, strict=True)]
