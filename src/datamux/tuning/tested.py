"""The models that matter on rows that played no part in the search, all on the same rows, beside the reference."""

from collections.abc import Callable, Sequence
from typing import Any

from datamux.evaluate.row_scores import Metric, Numbers, bootstrap, interval, score_of
from datamux.tasks.examples import Examples


def test_results(names: Sequence[str], rows: Callable[[str], Numbers], metric: Metric) -> list[dict[str, Any]]:
    """Scores in percent, and the points lost with their 95% interval; the first name is the reference.

    `rows` gives the numbers of every row, by the name of a model.
    """
    found = {name: rows(name) for name in dict.fromkeys(names)}
    scores = bootstrap(metric, *found.values())
    first = score_of(metric, found[names[0]])
    results = []
    for (name, numbers), samples in zip(found.items(), scores, strict=True):
        score = score_of(metric, numbers)
        low, high = interval(100 * (scores[0] - samples))
        lost = {"drop": 100 * (first - score), "drop_low": low, "drop_high": high}
        results.append({"name": name, "rows": len(numbers), "score": 100 * score, **lost})
    return results


def tested_sentence(results: Sequence[dict[str, Any]], chosen: str, test: Examples) -> str:
    """What the chosen model scores on rows that played no part in anything."""
    one = next(row for row in results if row["name"] == chosen)
    return (
        f"On {len(test):,} test rows, which played no part, it scores {one['score']:.1f} and the reference "
        f"{results[0]['score']:.1f}: a loss of {one['drop']:+.1f} points (95%: {one['drop_low']:+.1f} to "
        f"{one['drop_high']:+.1f})."
    )
