"""Any record as rows: series, n, metric, value, spread, seeds, paper."""

from typing import Any

from datamux.errors import unknown_name
from datamux.reproduce.accuracy import accuracy_rows
from datamux.reproduce.speed import speed_rows

COLUMNS = ("series", "n", "metric", "value", "spread", "seeds", "paper")


def rows_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a record."""
    if record["kind"] == "reproduce":
        return accuracy_rows(record)
    if record["kind"] == "speed":
        return speed_rows(record)
    return [{key: row.get(key) for key in COLUMNS} for row in record["rows"]]


def part_of(record: dict[str, Any], series: list[str], sizes: list[int]) -> dict[str, Any]:
    """A record with only some of its series and sizes; all, if none are given."""
    points = {(result["series"], result["n"]) for result in record["results"]}
    names, there = {name for name, _ in points}, sorted({n for _, n in points})
    for name in series:
        if name not in names:
            raise unknown_name(f"series of {record['figure']}", name, names)
    for n in sizes:
        if n not in there:
            raise ValueError(f"the record of {record['figure']} has no N = {n}; it has {', '.join(map(str, there))}")
    kept = [r for r in record["results"] if r["series"] in (series or names) and r["n"] in (sizes or there)]
    if not kept:
        raise ValueError(f"the record of {record['figure']} has none of these series at these N")
    return record | {"results": kept}
