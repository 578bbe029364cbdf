"""Image records as rows (series, n, metric, value, spread, seeds, paper) and as the tables of docs/vision.md.

For trained networks a row is one series at one N: the mean over its seeds in percent, and the spread over indices (the
standard deviation over slots, averaged over seeds). The spread of a speed is half of the distance between the slowest
round and the fastest.
"""

from collections.abc import Sequence
from statistics import fmean, median, pstdev, stdev

from datamux.errors import check_choice
from datamux.reproduce.images.measurements import ACCURACY, TIMED
from datamux.reproduce.images.stated import stated_value, stated_words
from datamux.reproduce.records import Groups, Record, committed, has_record
from datamux.reproduce.tables import table

COLUMNS = ("series", "n", "metric", "value", "spread", "seeds", "paper")
RATE, RATIO = "images per second", "times the plain network's"


def rows_of(record: Record) -> list[Record]:
    """The rows of an image record."""
    if record["kind"] == "images":
        return accuracy_rows(record)
    if record["kind"] == "image speed":
        return speed_rows(record)
    if record["kind"] == "torch again":
        return [
            _row(r["series"], r["n"], ACCURACY, 100 * r["now"], 100 * r["spread_of_seeds"]) for r in record["results"]
        ]
    rows = [row | {"paper": stated_value(record, row["series"], row["n"])} for row in record["rows"]]
    return [{key: row.get(key) for key in COLUMNS} for row in rows]


def _row(
    series: str, n: int, metric: str, value: float, spread: float, seeds: int = 1, paper: float | None = None
) -> Record:
    return dict(zip(COLUMNS, (series, n, metric, value, spread, seeds, paper), strict=True))


def accuracy_rows(record: Record) -> list[Record]:
    points: dict[tuple[str, int], list[Record]] = {}
    for result in record["results"]:
        points.setdefault((result["series"], result["n"]), []).append(result)
    rows = []
    for (series, n), results in points.items():
        value = round(100 * fmean(r["accuracy"] for r in results), 3)
        spread = round(100 * fmean(pstdev(r["slots"]) for r in results), 3)
        rows.append(_row(series, n, ACCURACY, value, spread, len(results), stated_value(record, series, n)))
    return rows


def speed_rows(record: Record) -> list[Record]:
    """For every point its images per second, the ratio, and its accuracy where there is a record of the same data."""
    known = {
        (f"{name}: {row['series']}", row["n"]): row
        for name in TIMED
        if _comparable(name, record)
        for row in accuracy_rows(committed(name))
    }
    rows = []
    for result in record["results"]:
        series, n = result["series"], result["n"]
        for metric, seen in ((RATE, result["rates"]), (RATIO, result["ratios"])):
            rows.append(_row(series, n, metric, median(seen), (max(seen) - min(seen)) / 2))
        if (series, n) in known:
            rows.append({**known[series, n], "series": series})
    return rows


def without_accuracy(record: Record) -> list[str]:
    """The experiments whose accuracy cannot stand beside a speed: no record of the same data is committed."""
    names = dict.fromkeys(result["series"].partition(": ")[0] for result in record["results"])
    return [name for name in names if not _comparable(name, record)]


def _comparable(name: str, record: Record) -> bool:
    return has_record(name) and bool(committed(name)["data"] == record["data"])


def select_rows(record: Record, series: Sequence[str], sizes: Sequence[int]) -> Record:
    """A record with only some of its series and sizes; with all of them, if none are given."""
    points = {(result["series"], result["n"]) for result in record["results"]}
    names, present = {name for name, _ in points}, sorted({n for _, n in points})
    title = record["experiment"].rpartition("/")[2]
    for name in series:
        check_choice(f"series of {title}", name, names)
    for n in sizes:
        if n not in present:
            raise ValueError(f"the record of {title} has no N = {n}; it has {', '.join(map(str, present))}")
    found = [r for r in record["results"] if r["series"] in (series or names) and r["n"] in (sizes or present)]
    if not found:
        raise ValueError(f"the record of {title} has none of these series at these N")
    return record | {"results": found}


def image_lines(groups: Groups) -> list[str]:
    """The tables of image records, with a heading each where there are several."""
    lines: list[str] = []
    for name, (record,) in groups.items():
        heading = [f"## {name}", ""] if len(groups) > 1 else []
        lines += [*heading, *image_table(record), ""]
    return lines[:-1]


def image_table(record: Record) -> list[str]:
    """One line per series, one column per group size."""
    if record["kind"] == "image speed":
        return speed_table(record)
    if record["kind"] == "torch again":
        return torch_again_table(record)
    rows = rows_of(record)
    sizes = sorted({row["n"] for row in rows})
    cells = {(row["series"], row["n"]): _cell(record, row) for row in rows}
    data = record["data"]
    seeds = sorted({row["seeds"] for row in rows})
    about = (
        f"{rows[0]['metric']}; {data['source']}, {data['train']:,} training and {data['test']:,} test images, "
        f"seeds: {' to '.join(map(str, seeds[:: max(1, len(seeds) - 1)]))}."
    )
    names = dict.fromkeys(row["series"] for row in rows)
    shown = [[name, *(cells.get((name, n), "") for n in sizes)] for name in names]
    return [about, "", *table(["series", *(f"N = {n}" for n in sizes)], shown)]


def _cell(record: Record, row: Record) -> str:
    spread = f" ± {row['spread']:.1f}" if row["spread"] else ""
    paper = stated_words(record, row["series"], row["n"])
    return f"{row['value']:.2f}{spread}" + (f" (paper: {paper})" if paper else "")


def speed_table(record: Record) -> list[str]:
    """One line per network: images per second, the ratio to the plain network, and its accuracy if it has a record."""
    points: dict[tuple[str, int], dict[str, Record]] = {}
    for row in rows_of(record):
        points.setdefault((row["series"], row["n"]), {})[row["metric"]] = row
    rows = []
    for (series, n), found in points.items():
        rate, ratio = found[RATE], found[RATIO]
        speed = [f"{rate['value']:,.0f} ± {rate['spread']:,.0f}", f"{ratio['value']:.2f} ± {ratio['spread']:.2f}"]
        rows.append([series, n, *speed, f"{found[ACCURACY]['value']:.2f}" if ACCURACY in found else "no record"])
    return table(["series", "N", RATE, RATIO, ACCURACY], rows)


def torch_again_table(record: Record) -> list[str]:
    """Committed runs of C++ code beside the same runs in torch: one sentence about all, and a row for each."""
    rows = record["results"]
    changes = [row["now"] - row["committed"] for row in rows]
    inside = sum(row["interval"][0] <= row["now"] <= row["interval"][1] for row in rows)
    mean, error = 100 * fmean(changes), 100 * stdev(changes) / len(rows) ** 0.5
    shown = []
    for row, change in zip(rows, changes, strict=True):
        low, high = row["interval"]
        accuracies = [f"{row['committed']:.2%}", f"{row['now']:.2%}", f"{100 * change:+.2f}"]
        spread = [f"{100 * row['spread_of_seeds']:.2f}", f"{low:.2%} to {min(high, 1):.2%}"]
        shown.append([row["series"], row["n"], row["seed"], *accuracies, *spread])
    titles = ["series", "N", "seed", "committed", "in torch", "difference", "spread of seeds", "interval"]
    about = (
        f"{inside} of {len(rows)} runs in torch fall into the interval of their committed seeds. In the mean they "
        f"differ from the committed runs by {mean:+.2f} ± {error:.2f} points."
    )
    return [about, "", *table(titles, shown)]
