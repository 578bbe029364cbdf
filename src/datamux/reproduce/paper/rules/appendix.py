"""Seeds, other keys, MLP demultiplexing and the sizes of plain models (the appendix)."""

from statistics import fmean

from datamux.reproduce.catalogue.mini import ABLATED, SIZES
from datamux.reproduce.paper import text_figures as text
from datamux.reproduce.paper.figure import Row
from datamux.reproduce.paper.rules.reading import (
    NOISE,
    NOTHING_LEARNED,
    TASK_METRICS,
    TASK_NOISE,
    Pair,
    apart,
    compared,
    learned,
    limited,
    mini,
    not_worse,
    pairs_of,
    rows_of,
)
from datamux.reproduce.paper.verdict import NotRun, Verdict, Word, at_most_in_part, listed, rule, share


@rule
def seeds() -> Verdict:
    """A score that no seed has beyond guessing varies little for another reason."""
    rows = [row for row in rows_of("seeds") if int(str(row["seeds"])) >= 3]
    if not rows:
        raise NotRun("three seeds")
    told = [row for row in rows if learned(row["metric"], row["value"] + row["spread"])]
    if not told:
        return Verdict("cannot be tested here", NOTHING_LEARNED)
    spreads = [float(row["spread"]) for row in told]
    word: Word = "holds" if max(spreads) <= 1.0 else "holds in part" if fmean(spreads) <= 1.0 else "does not hold"
    names = {str(row["series"]) for row in told}
    if text.PAPER not in names:
        word = at_most_in_part(word)  # not tried in the paper's own setting
    numbers = f"{fmean(spreads):.1f} points in the mean, at most {max(spreads):.1f}"
    places = [(f"{row['series']}, {row['metric']}", f"N = {row['n']}") for row in told]
    because = f"{len(told)} points with three seeds ({', '.join(sorted(names))}): {numbers}."
    return limited(lambda: word, places, len(rows), because)


@rule
def learned_keys() -> Verdict:
    return compared(pairs_of("keys", "learned", "Gaussian", TASK_METRICS), not_worse, "Gaussian minus learned")


@rule
def binary_keys() -> Verdict:
    gaussian, binary = (mini("keys", text.RETRIEVAL, keys) for keys in ("Gaussian", "binary"))
    last = max(SIZES)
    word: Word = "holds" if binary[last] < gaussian[last] - TASK_NOISE else "does not hold"
    return Verdict(word, f"Retrieval, binary: {listed(binary, '%')}; Gaussian: {listed(gaussian, '%')}.")


@rule
def mlp_demultiplexer() -> Verdict:
    """Worse: beyond noise at some N, and nowhere better. Unstable: seeds far apart, or a score that is guessed."""
    pairs = pairs_of("mlp-demultiplexer", "prefix", "MLP", TASK_METRICS)
    unstable = [
        f"{text.METRICS[task]} at N = {n} ({reason})"
        for task in ABLATED
        for n in SIZES
        if (reason := _unstable(task, n))
    ]
    told = [pair for pair in pairs if pair.says_something]

    def word() -> Word:
        points = [pair.apart for pair in told]
        worse = min(points) < -TASK_NOISE and max(points) <= TASK_NOISE
        return share(worse + bool(unstable), 2)

    trouble = f"Unstable: {', '.join(unstable)}." if unstable else "No seed of it is far from the others."
    places = [(pair.metric, pair.where) for pair in told]
    return limited(word, places, len(pairs), f"MLP minus prefix: {apart(told)}. {trouble}")


def _unstable(task: str, n: int) -> str:
    """Why MLP demultiplexing is unstable there, although the prefix is not; empty if it is stable."""
    prefix, mlp = (_row(series, text.METRICS[task], n) for series in ("prefix", "MLP"))
    if mlp["seeds"] < 3:
        raise NotRun(f"three seeds of MLP at N = {n} ({text.METRICS[task]}) at the mini scale")
    if learned(text.METRICS[task], prefix["value"]) and not learned(text.METRICS[task], mlp["value"]):
        return f"{mlp['value']:.1f}, which is guessed"
    if mlp["spread"] > NOISE and mlp["spread"] > 2 * prefix["spread"]:
        return f"seeds spread by {mlp['spread']:.1f} points, with the prefix by {prefix['spread']:.1f}"
    return ""


def _row(series: str, metric: str, n: int) -> Row:
    rows = rows_of("mlp-demultiplexer")
    return next(row for row in rows if (row["series"], row["metric"], row["n"]) == (series, metric, n))


@rule
def sizes() -> Verdict:
    pairs = []
    for metric in TASK_METRICS:
        widths = mini("sizes", metric, "3 layers, width", (60, 120))
        layers = mini("sizes", metric, "width 120, layers", (1, 3))
        pairs += [
            Pair(metric, "half the width", widths[120], widths[60]),
            Pair(metric, "one layer", layers[3], layers[1]),
        ]
    return compared(pairs, not_worse, "Smaller minus full")
