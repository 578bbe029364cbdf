"""From measured steps to what they say: percentiles, saturation, and throughput at a latency bound. Only arithmetic.

A step is one server under the load of a number of users, who send one request after the other, in one round.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

Step = dict[str, Any]
SOME_ERRORS = 0.01  # a step with a larger share of failed requests does not count as within a latency bound
MEDIANS = (
    *("requests_per_second", "texts_per_second", "p50", "p95", "p99"),
    *("generator_cores", "server_cores", "other_cores"),
)
SUMS = ("requests", "texts", "errors")


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which `percent` of the sorted `values` lie, interpolated between two neighbours."""
    if not values:
        raise ValueError("there are no values to take a percentile of")
    place = (len(values) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


class Bounded(NamedTuple):
    """Texts per second at a latency bound. `reached` is False if even the largest load stayed below the bound."""

    texts_per_second: float
    reached: bool


def at_latency(steps: Sequence[Step], milliseconds: float) -> Bounded:
    """The most texts per second that a server answers while 95 percent of its requests take at most `milliseconds`.

    `steps` are of one server and one round. Between the last step below the bound and the next one, throughput is taken
    to grow evenly with latency. 0 if even the smallest load takes longer.
    """
    best, reached = 0.0, False
    before: Step | None = None
    for step in sorted(steps, key=lambda step: step["users"]):
        if _is_within(step, milliseconds):
            best, reached = max(best, step["texts_per_second"]), False
            before = step
            continue
        reached = True
        if before is not None and step["p95"] is not None and step["p95"] > milliseconds:
            share = (milliseconds - before["p95"]) / (step["p95"] - before["p95"])
            between = before["texts_per_second"] + share * (step["texts_per_second"] - before["texts_per_second"])
            best = max(best, between)
        before = None
    return Bounded(best, reached)


def _is_within(step: Step, milliseconds: float) -> bool:
    few = step["errors"] <= SOME_ERRORS * (step["requests"] + step["errors"])
    return step["p95"] is not None and step["p95"] <= milliseconds and few


def at_saturation(steps: Iterable[Step]) -> float:
    """The most texts per second that a server answered, under any load."""
    return float(max(step["texts_per_second"] for step in steps))


def table_rows(steps: Sequence[Step]) -> list[Step]:
    """One row per server, texts per request and number of users: medians over the rounds, and sums of what is counted.

    `lowest` and `highest` are texts per second.
    """
    rows = []
    for (server, batch, users), same in _grouped(steps, "server", "texts_per_request", "users").items():
        row: Step = {"server": server, "texts_per_request": batch, "users": users, "rounds": len(same)}
        for name in MEDIANS:
            known = [step[name] for step in same if step[name] is not None]
            row[name] = median(known) if known else None
        row |= {name: sum(step[name] for step in same) for name in SUMS}
        rates = [step["texts_per_second"] for step in same]
        row |= {"lowest": min(rates), "highest": max(rates), "gears": _added(step["gears"] for step in same)}
        row["problems"] = _added(step["problems"] for step in same)
        rows.append(row)
    return rows


def summary_rows(steps: Sequence[Step], milliseconds: float, baseline: str) -> list[Step]:
    """One row per server and texts per request: throughput at saturation and at the latency bound.

    Ratios are to the server called `baseline`, round by round; None if there is none, or if it never kept the bound.
    """
    rounds = _grouped(steps, "server", "texts_per_request", "round")
    rows = []
    for (server, batch), same in _grouped(steps, "server", "texts_per_request").items():
        numbers = sorted({step["round"] for step in same})
        its = [rounds[server, batch, number] for number in numbers]
        others = [rounds.get((baseline, batch, number)) for number in numbers]
        bounds = [at_latency(some, milliseconds) for some in its]
        best = max(table_rows(same), key=lambda row: row["texts_per_second"])
        rows.append(
            {"server": server, "texts_per_request": batch, "users_at_saturation": best["users"]}
            | _spread("saturation", [at_saturation(some) for some in its])
            | _ratios("saturation", its, others, at_saturation)
            | _spread("at_bound", [bound.texts_per_second for bound in bounds])
            | _ratios("at_bound", its, others, lambda some: at_latency(some, milliseconds).texts_per_second)
            | {"bound_was_reached": any(bound.reached for bound in bounds), "gears": best["gears"]}
        )
    return rows


def _ratios(
    name: str, its: list[list[Step]], others: list[list[Step] | None], rate: Callable[[list[Step]], float]
) -> Step:
    pairs = [(rate(mine), rate(other)) for mine, other in zip(its, others, strict=True) if other]
    return _spread(f"{name}_ratio", [mine / other for mine, other in pairs if other > 0])


def _spread(name: str, values: Sequence[float]) -> Step:
    if not values:
        return {name: None, f"{name}_lowest": None, f"{name}_highest": None}
    return {name: median(values), f"{name}_lowest": min(values), f"{name}_highest": max(values)}


def _grouped(steps: Iterable[Step], *names: str) -> dict[tuple[Any, ...], list[Step]]:
    found: dict[tuple[Any, ...], list[Step]] = {}
    for step in steps:
        found.setdefault(tuple(step[name] for name in names), []).append(step)
    return found


def _added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for some in counts:
        for name, count in some.items():
            total[name] = total.get(name, 0) + count
    return total
