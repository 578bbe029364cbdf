"""What the models in the package score, in the precision in which they run. Their cards say more."""

from datamux.reproduce.records import Groups
from datamux.reproduce.tables import table


def packaged_section(groups: Groups) -> list[str]:
    records = {name: group[0] for name, group in groups.items()}
    sizes = sorted({row["group_size"] for record in records.values() for row in record["results"]})
    rows = []
    for name, record in records.items():
        found = {row["group_size"]: f"{100 * row['score']:.1f}" for row in record["results"]}
        measured_on = f"{record['task']} ({' and '.join(record['splits'])})"
        rows.append([name, measured_on, record["results"][0]["metric"], *(found.get(k, "") for k in sizes)])
    titles = ["model", "measured on", "metric", *(f"k = {k}" for k in sizes)]
    return ["## The models in the package", "", *table(titles, rows)]
