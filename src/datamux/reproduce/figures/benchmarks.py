"""Speed, memory, and where the time goes: one table per record."""

from collections.abc import Callable
from typing import Any

from datamux.evaluate.plots import shape_title, speed_title
from datamux.evaluate.speed_table import speed_table
from datamux.reproduce.records import Groups, Record
from datamux.reproduce.tables import paragraphs, table

PARTS = ("mixing", "encoder", "demultiplexer", "head", "plain")  # of a pass
Table = tuple[str, str, list[str], list[list[Any]]]  # its title, a sentence about it, titles of columns, rows
STEPS = ("tokenise", "pad", "run", "answer")  # from texts to answers
ABOUT = paragraphs(
    "## Speed and memory",
    "Plain is the Hugging Face classifier of the same shape. Everything in one table ran in one process, in turn, each "
    "at the best of several batch sizes. `gate` is our demultiplexer, `index` the paper's prefix. Where no trained "
    "model is named, weights are random: they do not change the time. Demultiplexers have a hidden layer twice as wide "
    "as the encoder where no width is named; the small recipes train one of 1024.",
)


def speed_section(groups: Groups) -> list[str]:
    lines = [*ABOUT]
    for name, (record,) in groups.items():
        title, rows = speed_title(record["settings"]), record["results"]
        several = ", several engines" * (len({row["about"]["engine"] for row in rows}) > 1)
        shown = table(*speed_table(rows))
        lines += [f"### Speed: {title}{several} (`{name}`)", "", *shown, "", f"![{title}](speed-{name}.png)", ""]
    return lines[:-1]


def memory_section(groups: Groups) -> list[str]:
    return _tables(groups, memory_table)


def breakdown_section(groups: Groups) -> list[str]:
    return _tables(groups, breakdown_table)


def _tables(groups: Groups, make: Callable[[Record], Table]) -> list[str]:
    lines = []
    for name, (record,) in groups.items():
        title, about, titles, rows = make(record)
        lines += [*paragraphs(f"### {title} (`{name}`)", about), *table(titles, rows), ""]
    return lines[:-1]


def memory_table(record: Record) -> Table:
    rows, settings = record["results"], record["settings"]
    spread = "lowest" in rows[0]
    title = f"Memory: {shape_title(settings)}, {settings['demultiplexer']}, "
    title += f"one pass of {rows[0]['groups']} groups of {rows[0]['tokens']} tokens"
    about = "Megabytes above what Python and torch take by themselves, each measurement in a process of its own"
    about += f"; medians of {settings['rounds']}." if spread else "."
    cells = []
    for r in rows:
        ratio = f"{r['ratio']:.2f}x" + (f" ({r['lowest']:.2f} to {r['highest']:.2f})" if spread else "")
        cells.append([r["group_size"], f"{r['model']:,.0f}", f"{r['peak']:,.0f}", ratio])
    against = "against the first row" + " (lowest to highest)" * spread
    return title, about, ["instances per pass", "model", "peak", against], cells


def breakdown_table(record: Record) -> Table:
    settings, rows = record["settings"], record["results"]
    title = f"Where the time goes: {shape_title(settings)}, "
    if record["kind"] == "text breakdown":
        title += f"from texts to answers, {settings['lengths']}"
        about = "Microseconds per text, one step after the other; the predictor tokenises in the background."
        titles = ["", "instances per pass", "tokenising", "sorting and padding", "model", "answers"]
        return title, about, titles, [[r["name"], r["group_size"], *(f"{r[s]:.1f}" for s in STEPS)] for r in rows]
    title += f"{settings['tokens']} tokens" + ", bf16" * settings["bf16"]
    if settings.get("demultiplexer", "gate") != "gate":
        title += f", {settings['demultiplexer']}"
    about = f"Milliseconds per group, in passes of {settings['groups']} groups; median of the rounds."
    titles = ["instances per pass", "mixing", "encoder", "demultiplexer", "head", "the plain model, one instance"]
    return title, about, titles, [[r["group_size"], *(f"{r[part]:.3f}" for part in PARTS)] for r in rows]
