"""What the models in the package score, in the precision in which they run. Their cards say more."""

from datamux.reproduce.figures.quality import flips
from datamux.reproduce.records import Groups, Record
from datamux.reproduce.tables import ABOUT_FLIPS, flip_cell, table


def packaged_section(groups: Groups) -> list[str]:
    records = {name: group[0] for name, group in groups.items()}
    sizes = sorted({row["group_size"] for record in records.values() for row in record["results"]})
    rows = []
    for name, record in records.items():
        found = _cells(record)
        measured_on = f"{record['task']} ({' and '.join(record['splits'])})"
        rows.append([name, measured_on, record["results"][0]["metric"], *(found.get(k, "") for k in sizes)])
    titles = ["model", "measured on", "metric", *(f"k = {k}" for k in sizes)]
    return ["## The models in the package", "", ABOUT_FLIPS, "", *table(titles, rows)]


def _cells(record: Record) -> dict[int, str]:
    flipped = flips([record])
    found = ((row["group_size"], row["score"]) for row in record["results"])
    return {k: f"{100 * score:.1f}{flip_cell(flipped.get(k))}" for k, score in found}
