"""Seeds, other keys, MLP demultiplexing and the sizes of plain models (the appendix)."""

from statistics import fmean

from datamux.reproduce.catalogue.mini import ABLATED, SIZES
from datamux.reproduce.paper import text_figures as text
from datamux.reproduce.paper.figure import Row
from datamux.reproduce.paper.rules.analysis import not_worse
from datamux.reproduce.paper.rules.reading import (
    GUESSING,
    NOISE,
    SAYS,
    TASK_METRICS,
    TASK_NOISE,
    differences,
    mini,
    rows_of,
)
from datamux.reproduce.paper.verdict import NotRun, Verdict, Word, at_most_in_part, listed, rule, share, signed


@rule
def seeds() -> Verdict:
    rows = [row for row in rows_of("seeds") if int(str(row["seeds"])) >= 3]
    if not rows:
        raise NotRun("three seeds")
    spreads = [float(str(row["spread"])) for row in rows]
    word: Word = "holds" if max(spreads) <= 1.0 else "holds in part" if fmean(spreads) <= 1.0 else "does not hold"
    names = {str(row["series"]) for row in rows}
    if text.PAPER not in names:
        word = at_most_in_part(word)  # not tried in the paper's own setting
    numbers = f"{fmean(spreads):.1f} points in the mean, at most {max(spreads):.1f}"
    return Verdict(word, f"{len(rows)} points with three seeds ({', '.join(sorted(names))}): {numbers}.")


@rule
def learned_keys() -> Verdict:
    met, total, apart = not_worse("keys", "learned", "Gaussian", TASK_METRICS)
    return Verdict(share(met, total), f"Gaussian minus learned: {apart}.")


@rule
def binary_keys() -> Verdict:
    gaussian, binary = (mini("keys", text.RETRIEVAL, keys) for keys in ("Gaussian", "binary"))
    last = max(SIZES)
    word: Word = "holds" if binary[last] < gaussian[last] - TASK_NOISE else "does not hold"
    return Verdict(word, f"Retrieval, binary: {listed(binary, '%')}; Gaussian: {listed(gaussian, '%')}.")


@rule
def mlp_demultiplexer() -> Verdict:
    """Worse: beyond noise at some N, and nowhere better. Unstable: seeds far apart, or a score that is guessed."""
    found = differences("mlp-demultiplexer", "prefix", "MLP", TASK_METRICS)
    apart = [points for by_size in found.values() for points in by_size.values()]
    worse = min(apart) < -TASK_NOISE and max(apart) <= TASK_NOISE
    unstable = [
        f"{text.METRICS[task]} at N = {n} ({reason})"
        for task in ABLATED
        for n in SIZES
        if (reason := _unstable(task, n))
    ]
    shown = "; ".join(f"{metric}: {signed(by_size)}" for metric, by_size in found.items())
    trouble = f"Unstable: {', '.join(unstable)}." if unstable else "No seed of it is far from the others."
    return Verdict(share(worse + bool(unstable), 2), f"MLP minus prefix: {shown}. {trouble}")


def _unstable(task: str, n: int) -> str:
    """Why MLP demultiplexing is unstable there, although the prefix is not; empty if it is stable."""
    prefix, mlp = (_row(series, text.METRICS[task], n) for series in ("prefix", "MLP"))
    if mlp["seeds"] < 3:
        raise NotRun(f"three seeds of MLP at N = {n} ({text.METRICS[task]}) at the mini scale")
    if mlp["value"] < GUESSING[task] + SAYS <= prefix["value"]:
        return f"{mlp['value']:.1f}, which is guessed"
    if mlp["spread"] > NOISE and mlp["spread"] > 2 * prefix["spread"]:
        return f"seeds spread by {mlp['spread']:.1f} points, with the prefix by {prefix['spread']:.1f}"
    return ""


def _row(series: str, metric: str, n: int) -> Row:
    rows = rows_of("mlp-demultiplexer")
    return next(row for row in rows if (row["series"], row["metric"], row["n"]) == (series, metric, n))


@rule
def sizes() -> Verdict:
    parts, met, total = [], 0, 0
    for metric in TASK_METRICS:
        widths = mini("sizes", metric, "3 layers, width", (60, 120))
        layers = mini("sizes", metric, "width 120, layers", (1, 3))
        lost = {"half the width": widths[120] - widths[60], "one layer": layers[3] - layers[1]}
        met += sum(points <= TASK_NOISE for points in lost.values())
        total += len(lost)
        parts.append(f"{metric}: " + ", ".join(f"{points:.1f} lost with {name}" for name, points in lost.items()))
    return Verdict(share(met, total), "; ".join(parts) + ".")
