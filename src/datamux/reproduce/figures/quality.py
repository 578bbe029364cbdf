"""How good each model is at each group size: one table per task.

A mixed model is compared with the best plain model of its family on the same task.
"""

from collections import defaultdict
from statistics import fmean

from datamux.reproduce.catalogue import get_experiment
from datamux.reproduce.records import Groups, Record, records_of
from datamux.reproduce.spread import spread_of
from datamux.reproduce.tables import ABOUT_FLIPS, TITLES, flip_cell, minutes, table

SIZES = (1, 2, 5, 10, 20, 40)
# The rows of the README's table: what a reader calls a model -> its experiment.
IN_SHORT = {
    "plain, four layers": "scratch-plain",
    "plain, one layer, with a pretrained teacher": "scratch-plain-1l-256h-distilled",
    "plain, no layer: only words": "scratch-plain-0l-256h",
    "**mixed**, four layers": "scratch-n20",
    "pretrained (MiniLM), all six layers": "minilm-plain-6-layers",
    "pretrained, cut to its first two layers": "minilm-plain-2-layers-longer",
    "pretrained, **mixed** after its second layer": "minilm-n10-mux-layer-2",
}


def quality_section(figure: str, groups: Groups) -> list[str]:
    """The table of one task: one row per experiment, one column per group size."""
    best: dict[tuple[str, ...], float] = {}
    for records in groups.values():
        first = records[0]
        if first["variant"]["n"] == 1:
            best[_rivals(first)] = max(best.get(_rivals(first), 0.0), fmean(scores(records)[1]))
    metrics = dict.fromkeys(records[0]["results"][0]["metric"] for records in groups.values())
    rows = []
    for records in groups.values():
        found, flipped, plain = scores(records), flips(records), best.get(_rivals(records[0]))
        is_mixed = records[0]["variant"]["n"] > 1
        cells = []
        for k in SIZES:
            if k not in found:
                cells.append("")
                continue
            value = fmean(found[k])
            spread = f" ± {spread_of(found[k]):.1f}" if len(found[k]) > 1 else ""
            drop = f" ({value - plain:+.1f})" if is_mixed and plain is not None else ""
            digits = 2 if figure == "retrieval" else 1  # close to 100, tenths show no difference
            cells.append(f"{value:.{digits}f}{spread}{drop}{flip_cell(flipped.get(k))}")
        spent = fmean(minutes(record) for record in records)
        seen = fmean(epochs(record) for record in records)
        rows.append([shown_name(records[0]), len(records), f"{seen:.1f}", f"{spent:.0f}", *cells])
    titles = ["model", "seeds", "epochs", "minutes", *(f"k = {k}" for k in SIZES)]
    about = f"Metric: {', '.join(metrics)}." + f" {ABOUT_FLIPS}" * any(map(flips, groups.values()))
    return [f"## {TITLES[figure]}", "", about, "", *table(titles, rows)]


def _rivals(record: Record) -> tuple[str, ...]:
    """Models with the same family, task and file of training rows are compared."""
    return record["family"], record["task"], get_experiment(record["experiment"]).train_file


def shown_name(record: Record) -> str:
    """The experiment's name in a table; experiments whose code was removed are marked."""
    experiment = get_experiment(record["experiment"])
    return experiment.name + " (retired)" * experiment.retired


def short_table(task: str) -> list[str]:
    """A few rows with plain names; `quality_section` has them all."""
    groups = records_of(task)
    found = {name: scores(groups[experiment]) for name, experiment in IN_SHORT.items()}
    flipped = {name: flips(groups[experiment]) for name, experiment in IN_SHORT.items()}
    sizes = [k for k in SIZES if any(k in row for row in found.values())]
    rows = [
        [
            name,
            len(row[1]),
            *(f"{fmean(row[k]):.1f}{flip_cell(flipped[name].get(k))}" if k in row else "" for k in sizes),
        ]
        for name, row in found.items()
    ]
    return table(["model", "seeds", *(f"k = {k}" for k in sizes)], rows)


def epochs(record: Record) -> float:
    """How often the last stage went over its rows."""
    return max(float(entry["epoch"]) for entry in record["training"][-1]["log"])


def flips(records: list[Record]) -> dict[int, float]:
    """The share of answers that change with the neighbours, where there are any; older records lack it."""
    found: dict[int, list[float]] = defaultdict(list)
    for record in records:
        for row in record["results"]:
            if row["group_size"] > 1 and row.get("flips") is not None:
                found[row["group_size"]].append(row["flips"])
    return {k: fmean(shares) for k, shares in found.items()}


def scores(records: list[Record]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for record in records:
        for row in record["results"]:
            found[row["group_size"]].append(100 * row["score"])
    return found
