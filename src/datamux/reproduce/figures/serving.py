"""Servers under rising load: the tables of each record."""

from datamux.reproduce.records import Groups, Record
from datamux.reproduce.tables import table
from datamux.serve.load.table import Table, profile_table, summary_table, tables


def serving_section(groups: Groups) -> list[str]:
    """Every table, as `datamux reproduce --show serve` prints it."""
    lines: list[str] = []
    for name, (record,) in groups.items():
        lines += [f"## Servers under load (`{name}`)", ""]
        for one in tables(record):
            lines += [f"### {one.title}", "", *_lines(one), ""]
    return lines[:-1]


def guide_lines(record: Record, picture: str) -> list[str]:
    """What the guide on serving shows: the summary, the picture and the profile."""
    settings, hardware = record["settings"], record["hardware"]
    lines = [
        f"`{settings['model']}` against `{settings['plain']}` on {hardware['cores']} cores ({hardware['cpu']}), "
        f"{settings['rounds']} rounds, texts from {settings['texts']}:",
        "",
        *_lines(summary_table(record)),
        "",
        f"![Latency against throughput of whole servers]({picture})",
    ]
    if "profile" in record:
        shown = profile_table(record)
        lines += ["", f"{shown.title}:", "", *_lines(shown)]
    return lines


def soak_section(groups: Groups) -> list[str]:
    """What became of all texts of each long run, as `datamux reproduce --show soak` prints it."""
    lines: list[str] = []
    for name, (record,) in groups.items():
        lines += [f"## A long run, every answer checked (`{name}`)", "", *soak_lines(record), ""]
    return lines[:-1]


def soak_lines(record: Record) -> list[str]:
    found = record["results"]
    counts = {
        "texts sent": found["texts"],
        "answered": found["answered"],
        "wrong": found["wrong"],
        "lost": found["lost"],
        "answered twice": found["doubled"],
        "groups with two tenants": found["groups_with_two_tenants"],
        "errors": found["errors"],
    }
    memory = [point["mb"] for point in found["memory_mb"]]
    rows = [[what, f"{count:,}"] for what, count in counts.items()]
    rows += [
        ["tenants and clients", f"{record['tenants']} and {record['clients']}"],
        ["texts per second", f"{found['texts_per_second']:,.0f}"],
        ["memory of the server, MB, lowest to highest", f"{min(memory):,.0f} to {max(memory):,.0f}"],
    ]
    return table(["", ""], rows)


def _lines(shown: Table) -> list[str]:
    notes = [line for note in shown.notes for line in ("", note)]
    return [*table(list(shown.columns), shown.rows), *notes]
