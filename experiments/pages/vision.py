"""The tables of the image figures in docs/vision.md."""

from datamux.reproduce.figures import FIGURES
from datamux.reproduce.table import committed, has_record, rows_of
from pages.common import DOCS, fill


def vision() -> str:
    """docs/vision.md with every figure's table as its record has it."""
    text = (DOCS / "vision.md").read_text()
    for name in FIGURES:
        text = fill(text, name, figure_table(name))
    return text


def figure_table(name: str) -> list[str]:
    """A figure's record as a table: a line a series, a column a group size."""
    if not has_record(name):
        return [f"Not run yet: `datamux reproduce {name}`."]
    record = committed(name)
    rows = rows_of(record)
    sizes = sorted({row["n"] for row in rows})
    cells = {(row["series"], row["n"]): row for row in rows}
    data = record["data"]
    seeds = sorted({row["seeds"] for row in rows})
    lines = [
        f"{rows[0]['metric']}; {data['source']}, {data['train']:,} training and {data['test']:,} test images, "
        f"seeds: {' to '.join(map(str, seeds[:: max(1, len(seeds) - 1)]))}.",
        "",
        "| series | " + " | ".join(f"N = {n}" for n in sizes) + " |",
        "|---" * (1 + len(sizes)) + "|",
    ]
    for series in dict.fromkeys(row["series"] for row in rows):
        shown = [figure_cell(cells.get((series, n))) for n in sizes]
        lines.append(f"| {series} | " + " | ".join(shown) + " |")
    return lines


def figure_cell(row: dict | None) -> str:
    if row is None:
        return ""
    spread = f" ± {row['spread']:.1f}" if row["spread"] else ""
    paper = f" (paper: {row['paper']:.2f})" if row["paper"] is not None else ""
    return f"{row['value']:.2f}{spread}{paper}"
