"""What the models in the package score, in the precision in which they run. Their cards say more."""

from typing import Any

from datamux.reproduce.records import Groups
from datamux.reproduce.tables import table


def packaged_section(groups: Groups) -> list[str]:
    records = {name: group[0] for name, group in groups.items()}
    sizes = sorted({row["group_size"] for record in records.values() for row in record["results"]})
    rows = []
    for name, record in records.items():
        found = {row["group_size"]: _cell(row) for row in record["results"]}
        measured_on = f"{record['task']} ({' and '.join(record['splits'])})"
        rows.append([name, measured_on, record["results"][0]["metric"], *(found.get(k, "") for k in sizes)])
    titles = ["model", "measured on", "metric", *(f"k = {k}" for k in sizes)]
    about = "In brackets: the share of answers (for tags: of words) that flip when only the neighbours change."
    return ["## The models in the package", "", about, "", *table(titles, rows)]


def _cell(row: dict[str, Any]) -> str:
    flips = f" ({row['flips']:.1%})" if row.get("flips") and row["group_size"] > 1 else ""
    return f"{100 * row['score']:.1f}{flips}"
