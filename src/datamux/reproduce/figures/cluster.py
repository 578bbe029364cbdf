"""Files on a cluster: the measured runs, and what a billion texts cost by the model of cost."""

from datamux.cluster.cost import ASSUMED, billion_table, efficiency_of, measured_table
from datamux.reproduce.records import Groups, Record
from datamux.reproduce.tables import table


def cluster_section(groups: Groups) -> list[str]:
    """The measured runs, as `datamux reproduce --show cluster` prints them."""
    lines: list[str] = []
    for name, (record,) in groups.items():
        lines += [f"## Files on Ray (`{name}`)", "", *measured_lines(record), ""]
    return lines[:-1]


def measured_lines(record: Record) -> list[str]:
    settings, hardware = record["settings"], record["hardware"]
    size = record["results"][0]["bytes_per_text"]
    return [
        f"`{settings['model']}` on {hardware['cores']} cores ({hardware['cpu']}), Ray {settings['ray']}, "
        f"training texts of {settings['task']}, {size:.0f} bytes of JSON per text:",
        "",
        *table(*measured_table(record)),
    ]


def billion_lines(record: Record | None) -> list[str]:
    """The table of a billion texts; `record` has the measured efficiency of one model."""
    said = f"Efficiency {ASSUMED:.0%} (assumed: it is not measured yet)."
    if record:
        model = record["settings"]["model"]
        said = f"Efficiency of `{model}` {efficiency_of(record):.0%} (measured), of the others {ASSUMED:.0%} (assumed)."
    return [said, "", *table(*billion_table(record))]
