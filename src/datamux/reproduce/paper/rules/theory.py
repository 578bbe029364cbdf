"""The construction of self-attention that keeps sequences apart (Section 4.4)."""

from datamux.reproduce.construction import METRIC
from datamux.reproduce.paper.rules.reading import rows_of
from datamux.reproduce.paper.verdict import Verdict, known, listed, rule


def _interference(series: str) -> dict[int, float]:
    return known(rows_of("theory"), METRIC, series)


@rule
def construction() -> Verdict:
    found = _interference("the construction")
    exact = max(found.values()) < 1e-6
    return Verdict("holds" if exact else "does not hold", f"Interference up to {max(found.values()):.0e} percent.")


@rule
def scores_average() -> Verdict:
    found = _interference("heads shared by all")
    return Verdict("holds" if min(found.values()) > 1 else "does not hold", f"Interference: {listed(found, '%')}.")


@rule
def existence_only() -> Verdict:
    free, keyed = _interference("unstructured weights"), _interference("overlapping subspaces")
    mixes = min(*free.values(), *keyed.values()) > 1
    return Verdict(
        "holds" if mixes else "does not hold",
        f"Weights without the structure mix the sequences ({listed(free, '%')}), and so do Hadamard keys "
        f"({listed(keyed, '%')}); trained models must do something else.",
    )
