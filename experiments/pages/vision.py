"""The tables of the image figures in docs/vision.md."""

from datamux.reproduce.accuracy import ACCURACY
from datamux.reproduce.committed import committed, has_record
from datamux.reproduce.figures import FIGURES
from datamux.reproduce.paper import stated_words
from datamux.reproduce.speed import RATE, RATIO
from datamux.reproduce.table import rows_of
from datamux.train.image_networks import ImageNetwork
from pages.common import DOCS, fill, missed

BEATEN = "mnist-beaten"
# The backbone, the largest mixture in images, N: what we aimed at, what the paper has.
AIMS = {
    ("mlp", 1, 8): (93.0, "about 83 (low-rank)"),
    ("mlp", 1, 16): (86.0, ""),
    ("cnn", 1, 4): (96.0, "above 80 (nonlinear)"),
    ("cnn", 1, 8): (90.0, "about 56 (ortho)"),
    ("cnn", 8, 8): (97.0, "83.65 (nonlinear 8x)"),
    ("cnn", 8, 16): (92.0, "53.30 (nonlinear 8x)"),
}


def vision() -> str:
    """docs/vision.md with every figure's table as its record has it."""
    text = (DOCS / "vision.md").read_text()
    for name in FIGURES:
        text = fill(text, name, figure_section(name))
    return fill(text, "mnist-aims", vision_aims())


def figure_section(name: str) -> list[str]:
    if not has_record(name):
        return [f"Not run yet: `datamux reproduce {name}`."]
    record = committed(name)
    lines = speed_table(record) if record["kind"] == "speed" else figure_table(record)
    picture = ["", f"![{FIGURES[name].what}]({name}.png)"] if (DOCS / f"{name}.png").exists() else []
    return lines + picture


def figure_table(record: dict) -> list[str]:
    """A figure's record as a table: a line a series, a column a group size."""
    rows = rows_of(record)
    sizes = sorted({row["n"] for row in rows})
    cells = {(row["series"], row["n"]): figure_cell(record, row) for row in rows}
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
        lines.append(f"| {series} | " + " | ".join(cells.get((series, n), "") for n in sizes) + " |")
    return lines


def figure_cell(record: dict, row: dict) -> str:
    spread = f" ± {row['spread']:.1f}" if row["spread"] else ""
    paper = stated_words(record, row["series"], row["n"])
    return f"{row['value']:.2f}{spread}" + (f" (paper: {paper})" if paper else "")


def speed_table(record: dict) -> list[str]:
    """A line a network: images a second, the ratio to the plain network, and its accuracy where it has a record."""
    points: dict[tuple[str, int], dict[str, dict]] = {}
    for row in rows_of(record):
        points.setdefault((row["series"], row["n"]), {})[row["metric"]] = row
    lines = [f"| series | N | {RATE} | {RATIO} | {ACCURACY} |", "|---|---|---|---|---|"]
    for (series, n), found in points.items():
        rate, ratio = found[RATE], found[RATIO]
        score = f"{found[ACCURACY]['value']:.2f}" if ACCURACY in found else "no record"
        speed = f"{rate['value']:,.0f} ± {rate['spread']:,.0f} | {ratio['value']:.2f} ± {ratio['spread']:.2f}"
        lines.append(f"| {series} | {n} | {speed} | {score} |")
    return lines


def vision_aims() -> list[str]:
    """Aim by aim, the best series of its kind: met, or missed by how much."""
    if not has_record(BEATEN):
        return [f"Not run yet: `datamux reproduce {BEATEN}`."]
    return aims_table(committed(BEATEN))


def aims_table(record: dict) -> list[str]:
    networks = {name: ImageNetwork(**settings["network"]) for name, settings in record["recipe"].items()}
    lines = [
        "| network | N | aim, % | best series | accuracy, % | the paper | |",
        "|---|---|---|---|---|---|---|",
    ]
    for (backbone, maps, n), (aim, paper) in AIMS.items():
        rows = [
            row
            for row in rows_of(record)
            if row["n"] == n
            and networks[row["series"]].backbone == backbone
            and (networks[row["series"]].maps > 1) == (maps > 1)
        ]
        best = max(rows, key=lambda row: row["value"])
        size = "mixture as large as one image" if maps == 1 else f"mixture {maps}x"
        found = f"{best['series']} | {best['value']:.2f} | {paper} | {missed(aim - best['value'], 2)}"
        lines.append(f"| {backbone.upper()}, {size} | {n} | {aim:g} | {found} |")
    return lines
