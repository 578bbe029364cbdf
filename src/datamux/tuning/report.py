"""The report: the recommendation, the plot and the table, as one HTML file that fetches nothing, or as Markdown."""

from html import escape
from pathlib import Path
from typing import Any

from datamux.tuning.plot import frontier_svg

TITLES = ("", "score", "points lost (95%)", "texts/s", "against the reference", "wish holds", "")
STYLE = """
body { font-family: sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; line-height: 1.45; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: right; padding: 0.25rem 0.6rem; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
tr.chosen { background: #fff4c2; font-weight: bold; }
tr.tried { color: #777; }
svg { width: 100%; height: auto; }
"""


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """One row of the table, as text."""
    mark = "chosen" if row["chosen"] else "frontier" if row["on_frontier"] else ""
    if row.get("failed"):
        return (row["name"], "", "", "", "", "", row["failed"])
    if not row.get("timed"):
        rows = "other rows" if row.get("stop_rows") else ""
        return (row["name"], f"{row['score']:.1f}", f"{row['drop']:+.1f}", f"about {row['rate']:,.0f}", "", "", rows)
    drop = f"{row['drop']:+.1f} ({row['drop_low']:+.1f} to {row['drop_high']:+.1f})"
    ratio = f"{row['ratio']:.1f}x ({row['lowest']:.1f} to {row['highest']:.1f})"
    return (row["name"], f"{row['score']:.1f}", drop, f"{row['rate']:,.0f}", ratio, f"{row['chance']:.0%}", mark)


def time_spent(record: dict[str, Any]) -> str:
    """How long the search took, and how long it was allowed to take."""
    spent, budget = (record[name] / 60 for name in ("spent", "budget"))
    return f"The search took {spent:.1f} of the {budget:.1f} minutes of its budget."


def html(record: dict[str, Any]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in TITLES)
    rows = []
    for row in record["table"]:
        look = "chosen" if row["chosen"] else "" if row.get("timed") else "tried"
        rows.append(f'<tr class="{look}">' + "".join(f"<td>{escape(cell)}</td>" for cell in cells(row)) + "</tr>")
    notes = "".join(f"<li>{escape(note)}</li>" for note in record["notes"])
    tested = f"<p>{escape(record['tested'])}</p>" if record.get("tested") else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>datamux tune: {escape(record["task"])}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>
<h1>{escape(record["task"])}: the fastest model that is good enough</h1>
<p>{escape(" ".join(record["recommendation"]))}</p>
<p>{escape(record["tenfold"])}</p>
{tested}
<p>{time_spent(record)}</p>
{frontier_svg(record)}
<h2>Everything that was tried</h2>
<p>Scores are {escape(record["metric"])} in percent, on {record["choice_rows"]:,} rows that nothing was trained on,
answered by the predictor that you will call. Lines in grey were not timed to the end. Those with "other rows" did not
reach the finals: their scores are on the rows that decide when a training stops.</p>
<table><thead><tr>{head}</tr></thead><tbody>
{chr(10).join(rows)}
</tbody></table>
<h2>Notes</h2>
<ul>{notes}</ul>
</body></html>
"""


def markdown(record: dict[str, Any]) -> str:
    lines = [f"# {record['task']}: the fastest model that is good enough", "", " ".join(record["recommendation"]), ""]
    lines += [record["tenfold"], "", "![Score against texts per second](frontier.svg)", ""]
    lines += [record["tested"], ""] if record.get("tested") else []
    lines += [time_spent(record), ""]
    lines += ["| " + " | ".join(TITLES) + " |", "|" + "---|" * len(TITLES)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells(row)) + " |" for row in record["table"]]
    lines += [
        "",
        f"Scores are {record['metric']} in percent, on {record['choice_rows']:,} rows that nothing was trained on; "
        'those with "other rows" are on the rows that decide when a training stops.',
    ]
    return "\n".join([*lines, "", *(f"- {note}" for note in record["notes"])]) + "\n"


def write_report(record: dict[str, Any], folder: Path) -> Path:
    """Write `report.html`, and `report.md` with its picture beside it. Returns the first."""
    (folder / "frontier.svg").write_text(frontier_svg(record), encoding="utf-8")
    (folder / "report.md").write_text(markdown(record), encoding="utf-8")
    file = folder / "report.html"
    file.write_text(html(record), encoding="utf-8")
    return file
