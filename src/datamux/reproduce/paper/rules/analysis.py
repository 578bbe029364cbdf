"""Heads, smaller models, indices and neighbours (Section 4.3)."""

from datamux.reproduce.anchors import COSINE, NEAREST
from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.catalogue.mini import SIZES
from datamux.reproduce.paper import text_figures as text
from datamux.reproduce.paper.measured_figures import BY_CHANCE, INDEXED, SPREAD
from datamux.reproduce.paper.rules.reading import (
    NOISE,
    TASK_METRICS,
    TASK_NOISE,
    differences,
    mini,
    rows_of,
    says_something,
)
from datamux.reproduce.paper.verdict import NotRun, Verdict, Word, at_most_in_part, known, rule, share, signed
from datamux.reproduce.records import recorded

FEW = 0.01  # of the answers
NEAR_ZERO = 0.1  # of a cosine
BEYOND_CHANCE = 1.5  # times the distance between the best and the worst of equal indices


def not_worse(name: str, one: str, other: str, metrics: tuple[str, ...]) -> tuple[int, int, str]:
    """At how many points the second series is as good as the first, of how many, and all differences in words."""
    found = differences(name, one, other, metrics)
    points = [apart for by_size in found.values() for apart in by_size.values()]
    shown = "; ".join(f"{metric}: {signed(by_size)}" for metric, by_size in found.items())
    return sum(apart >= -TASK_NOISE for apart in points), len(points), shown


@rule
def heads() -> Verdict:
    met, total, apart = not_worse("heads", "six heads", "two heads", (text.RETRIEVAL, *TASK_METRICS))
    return Verdict(share(met, total), f"Two heads minus six: {apart}.")


@rule
def smaller_models() -> Verdict:
    found = [not_worse("smaller-models", "3L/120H", name, TASK_METRICS) for name in ("3L/60H", "1L/120H")]
    met, total = sum(part[0] for part in found), sum(part[1] for part in found)
    return Verdict(share(met, total), f"Half as wide: {found[0][2]}. A third as deep: {found[1][2]}.")


@rule
def indices() -> Verdict:
    """In the paper's training on SST-2; also on MNLI, if it says something here, and in our models, if recorded."""
    rows, grows, parts = rows_of("indices"), [], []
    mini("indices", SPREAD, text.INDEXED_PAPER)
    recorded_series = {str(row["series"]) for row in rows}
    for series, points in INDEXED.items():
        if series not in recorded_series or ("MNLI" in series and not says_something("mnli")):
            continue
        found, chance = (known(rows, metric, series, tuple(points)) for metric in (SPREAD, BY_CHANCE))
        first, last = min(found), max(found)
        grows.append(found[last] > found[first] + NOISE and found[last] > BEYOND_CHANCE * chance[last])
        shown = ", ".join(f"{apart:.1f} at N = {n} (by chance: {chance[n]:.1f})" for n, apart in found.items())
        parts.append(f"{series}: {shown}")
    return Verdict(share(sum(grows), len(grows)), f"Best minus worst index. {'; '.join(parts)}.")


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
