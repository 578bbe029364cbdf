"""How far the values of a few seeds lie apart: the one definition that all tables, figures and rules share."""

from collections.abc import Sequence
from statistics import stdev


def spread_of(values: Sequence[float]) -> float:
    """The sample's standard deviation; 0 for a single value, which has none."""
    return stdev(values) if len(values) > 1 else 0.0
