"""Heads, smaller models, indices and neighbours (Section 4.3)."""

from datamux.reproduce.anchors import COSINE, NEAREST
from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.catalogue.mini import SIZES
from datamux.reproduce.paper import text_figures as text
from datamux.reproduce.paper.measured_figures import BY_CHANCE, INDEXED, INDEXED_METRICS, SPREAD
from datamux.reproduce.paper.rules.reading import (
    NOISE,
    TASK_METRICS,
    apart,
    compared,
    learned,
    limited,
    mini,
    not_worse,
    pairs_of,
    rows_of,
)
from datamux.reproduce.paper.verdict import NotRun, Verdict, Word, at_most_in_part, known, rule, share
from datamux.reproduce.records import recorded

FEW = 0.01  # of the answers
NEAR_ZERO = 0.1  # of a cosine
BEYOND_CHANCE = 1.5  # times the distance between the best and the worst of equal indices


@rule
def heads() -> Verdict:
    metrics = (text.RETRIEVAL, *TASK_METRICS)
    return compared(pairs_of("heads", "six heads", "two heads", metrics), not_worse, "Two heads minus six")


@rule
def smaller_models() -> Verdict:
    half, third = (pairs_of("smaller-models", "3L/120H", name, TASK_METRICS) for name in ("3L/60H", "1L/120H"))
    told = [pair for pair in (*half, *third) if pair.says_something]
    return limited(
        lambda: not_worse(told),
        [(pair.metric, pair.where) for pair in told],
        len(half) + len(third),
        f"Half as wide: {apart(half)}. A third as deep: {apart(third)}.",
    )


@rule
def indices() -> Verdict:
    """In the paper's training on SST-2; also on MNLI and in our models, if recorded. Guesses have no better index."""
    rows, grows, parts, told, of = rows_of("indices"), [], [], [], 0
    mini("indices", SPREAD, text.INDEXED_PAPER)
    recorded_series = {str(row["series"]) for row in rows}
    for series, points in INDEXED.items():
        if series not in recorded_series:
            continue
        metric, sizes = INDEXED_METRICS[series], tuple(points)
        score, found, chance = (known(rows, name, series, sizes) for name in (metric, SPREAD, BY_CHANCE))
        sizes_told = [n for n in sizes if learned(metric, score[n])]
        told += [(series, f"N = {n}") for n in sizes_told]
        of += len(sizes)
        if len(sizes_told) < 2:
            parts.append(f"{series}: it is learned at fewer than two N")
            continue
        first, last = min(sizes_told), max(sizes_told)
        grows.append(found[last] > found[first] + NOISE and found[last] > BEYOND_CHANCE * chance[last])
        shown = ", ".join(f"{found[n]:.1f} at N = {n} (by chance: {chance[n]:.1f})" for n in sizes_told)
        parts.append(f"{series}: {shown}")
    because = f"Best minus worst index. {'; '.join(parts)}."
    if told and not grows:
        return Verdict("cannot be tested here", because)
    return limited(lambda: share(sum(grows), len(grows)), told, of, because)


@rule
def robust() -> Verdict:
    nearest = {str(row["series"]): float(str(row["value"])) for row in rows_of("anchors") if row["metric"] == NEAREST}
    if not nearest:
        raise NotRun("the anchors")
    shown = ", ".join(f"{series}: {share_:.0f}%" for series, share_ in nearest.items())
    least = min(nearest.values())
    word: Word = "holds" if least >= 95 else "holds in part" if least >= 50 else "does not hold"
    audits = [r for name in ("audit/sentiment", "audit/ner") for r in recorded(EXPERIMENTS[name])]
    flips = max((row["flips"] for r in audits for row in r["results"] if row["part"] == "consistency"), default=0.0)
    return Verdict(
        at_most_in_part(word) if flips > FEW or not _in_the_papers_training() else word,
        f"The nearest of all representations is of the same text: {shown}.{_only_ours()}"
        + (f" Up to {flips:.1%} of the answers of our packaged models change with the neighbours." if flips else ""),
    )


@rule
def far_apart() -> Verdict:
    """At the largest N of each kind of model that was measured."""
    found = {f"{row['series']}, N = {row['n']}": row for row in rows_of("anchors") if row["metric"] == COSINE}
    if not found:
        raise NotRun("the anchors")
    cosines = {name: float(row["value"]) for name, row in found.items() if row["n"] >= max(SIZES)}
    shown = ", ".join(f"{name}: {cosine:.2f}" for name, cosine in cosines.items())
    word = share(sum(abs(cosine) <= NEAR_ZERO for cosine in cosines.values()), len(cosines))
    return Verdict(word if _in_the_papers_training() else at_most_in_part(word), f"{shown}.{_only_ours()}")


def _in_the_papers_training() -> bool:
    """Whether there are anchors of models that were trained as the paper says."""
    return any(str(row["series"]).startswith("hadamard") for row in rows_of("anchors"))


def _only_ours() -> str:
    return "" if _in_the_papers_training() else " Models trained as the paper says were not looked at yet."
