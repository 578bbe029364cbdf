"""Files on a cluster: the measured runs, and what a billion texts cost by the model of cost."""

from statistics import median

from datamux.cluster.cost import (
    BILLION,
    BYTES_ANSWER,
    CORES,
    OVERHEAD,
    Speeds,
    billion_table,
    bytes_per_text,
    compared,
    efficiency_of,
    measured_gears,
    measured_table,
    prediction_errors,
    rows_for_overhead,
    speeds_of,
    start_up,
)
from datamux.cluster.measured_run import LOCAL
from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.records import Groups, Record, committed, has_record
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
        *table(*measured_table(record, same_texts(record))),
        "",
        *overhead_lines(record),
        *error_lines(record),
    ]


def speed_record(record: Record) -> str:
    """The name of the experiment that measures the speed of the same model on the same texts."""
    return f"speed/{record['settings']['task']}-texts-{record['settings']['model']}"


def same_texts(record: Record) -> Speeds | None:
    """The speeds of the model on the texts that the rows are made of; None if there is no record of them.

    The card's were measured on other texts, so runs that differ from them would not check the model of cost.
    """
    name = speed_record(record)
    return speeds_of(committed(name)) if name in EXPERIMENTS and has_record(name) else None


def overhead_lines(record: Record) -> list[str]:
    """What Ray costs in the work, in total, and from how many rows on that is little."""
    pairs = [row for row in compared(record) if row["engine"] != LOCAL and row["of_local"] is not None]
    if not pairs:
        return []
    speeds, totals = ([row[name] for row in pairs] for name in ("of_local", "total_of_local"))
    starts = [start_up(row) for row in pairs]
    enough = [
        f"{float(f'{rows:.1e}'):,.0f} rows with {size} {'text' if size == 1 else 'texts'} per pass"
        for size, rows in sorted(rows_for_overhead(record).items())
    ]
    return [
        f"- **At work**, Ray reaches {min(speeds):.0%} to {max(speeds):.0%} of the local engine's speed.",
        f"- **In total**, with {min(starts):.0f} to {max(starts):.0f} seconds until its workers have their model, "
        f"it takes {min(totals):.2f} to {max(totals):.2f} times as long as the local engine: "
        + ", ".join(f"{row['total_of_local']:.2f} for {row['rows']:,} rows" + _where(row) for row in pairs)
        + ".",
        f"- So it costs less than {OVERHEAD:.0%} in total from about {' or '.join(enough) or 'no number of rows'} on "
        "(computed from the start-ups and speeds of the longest runs; Ray counts as no faster than the local engine).",
    ]


def _where(row: Record) -> str:
    return f" ({row['group_size']} per pass, {row['workers']} {'core' if row['workers'] == 1 else 'cores'})"


def error_lines(record: Record) -> list[str]:
    """How far the model of cost is off, by speeds on the same texts if there are any, and by those of the card."""
    speeds = same_texts(record)
    lines = []
    if speeds is not None and (errors := prediction_errors(record, speeds)):
        told = f"with the speeds that `{speed_record(record)}` measured on the same texts, as in the table, "
        lines.append(f"- **Error of the model of cost**: {told}{_off(errors)}")
    if errors := prediction_errors(record):
        lines.append(f"- **With the speeds of the card**, which were measured on other texts, {_off(errors)}")
    return lines


def _off(errors: list[float]) -> str:
    return (
        f"its time without start-up is {min(errors):+.0%} to {max(errors):+.0%} off for {len(errors)} runs with Ray, "
        f"{median(errors):+.0%} in the middle (+ means that it is too long)."
    )


def billion_lines(record: Record | None) -> list[str]:
    """The table of a billion texts, with the efficiency that all its rows share, and its bytes."""
    said = f"Efficiency {efficiency_of(record):.0%} for all rows "
    if record:
        said += f"(measured with `{record['settings']['model']}` only: the lowest share of the local engine's speed)."
    else:
        said += "(assumed: it is not measured yet)."
    return [said, "", *table(*billion_table(record)), "", byte_line(record)]


def byte_line(record: Record | None) -> str:
    """How much a billion texts are, and what the fastest gear reads and writes per second."""
    into, out, counted = bytes_per_text(record)
    fastest = max(gear.texts_per_second for gear in measured_gears()) * efficiency_of(record) * CORES
    source = "as in the runs below" if record else "assumed"
    how = "counted there" if counted else f"assumed: the text and {BYTES_ANSWER:.0f} bytes for label and score"
    return (
        f"A billion texts are {into * BILLION / 1e9:,.0f} GB of input ({into:.0f} bytes of JSON per text, {source}) "
        f"and {out * BILLION / 1e9:,.0f} GB of output ({out:.0f} bytes of JSON, {how}). With the fastest gear, "
        f"{CORES} cores read {into * fastest / 1e6:,.0f} MB and write {out * fastest / 1e6:,.0f} MB per second."
    )
