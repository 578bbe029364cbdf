"""Tables of records that hold their rows ready to be shown: the anchors, and the paper's construction."""

from datamux.reproduce.records import Groups
from datamux.reproduce.tables import paragraphs, table


def rows_section(title: str, about: str, groups: Groups) -> list[str]:
    """The rows that records hold themselves, below a sentence that says what they are about."""
    rows = [row for records in groups.values() for record in records for row in record["rows"]]
    cells = [[row["series"], row["n"], row["metric"], f"{row['value']:.4g}", f"{row['spread']:.2g}"] for row in rows]
    return [*paragraphs(f"## {title}", about), *table(["series", "N", "metric", "value", "spread"], cells)]
