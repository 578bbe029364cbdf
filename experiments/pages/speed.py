"""Speed, memory, and accuracy against throughput."""

from dataclasses import asdict

from datamux.evaluate.frontier import Point, mark_best
from datamux.evaluate.plots import shape_title, speed_title
from datamux.evaluate.ratios import ratio_cells, ratio_titles, share_cell
from datamux.evaluate.records import read_record
from pages.common import DOCS, RESULTS, TITLES

TRAINED = (" steps | learning rate |", "---|---|")  # how each model of a frontier was trained on the task
PARTS = ("mixing", "encoder", "demultiplexer", "head", "plain")  # of a pass
STEPS = ("tokenise", "pad", "run", "answer")  # from texts to answers


RIVALS = {  # by how their names begin
    "small 4L": "The small ones of 4L/256H are from scratch; they are older, and worse, than those now in the package.",
    "small 1L": "1L/64H is a plain one with their teacher.",
    "words alone": "Words alone are the mean of word vectors and a head, without a layer, taught by a plain 4L/256H.",
}


def frontier_section() -> list[str]:
    """Accuracy against throughput of everything that was put side by side."""
    lines = []
    for file in sorted((RESULTS / "frontier").glob("*.json")):
        record = read_record(file)
        lines += [
            f"## Should you use it? {TITLES[record['task']]}",
            "",
            "Everything ran in one process, in turn, from texts to answers, each at its best batch size",
            "(`experiments/frontier.sh`). A star: nothing else is both faster and better. Models of several layers",
            "are one pretrained encoder, its upper layers cut off and fine-tuned with the same teacher.",
            *(what for start, what in RIVALS.items() if any(r["model"].startswith(start) for r in record["results"])),
            "int8 is ONNX Runtime's dynamic quantisation.",
            scores_line(record),
            "",
            f"![Accuracy against throughput](frontier-{file.stem}.png)",
            "",
        ]
        if "recommendation" in record:
            lines += [record["recommendation"]["line"], ""]
        lines += [*frontier_table(record), ""]
    return lines


def scores_line(record: dict) -> str:
    """How the scores of a frontier were taken: not quite as those of the tables above."""
    many = record["evaluation"]["groupings"]
    return (
        f"Scores were taken here, in the engine of the row, over {many} random grouping{'s'[: many != 1]}: they differ "
        "by some tenths from those above (bf16, three groupings)."
    )


def frontier_table(record: dict) -> list[str]:
    """Every point, the slowest first, behind the one that all are compared with."""
    known = "steps" in record["results"][0]
    lines = [
        "| | score | points lost | instances/s | against the first (lowest to highest) | |" + TRAINED[0] * known,
        "|---|---|---|---|---|---|" + TRAINED[1] * known,
    ]
    several = len({r["engine"] for r in record["results"]}) > 1
    points = [asdict(point) for point in mark_best([Point(**r) for r in record["results"]])]
    for r in [points[0], *sorted(points[1:], key=lambda r: r["ratio"])]:
        name = r["model"] + (f", {r['engine']}" * several) + (f", {r['group_size']} a pass" * (r["group_size"] > 1))
        ratio = f"{r['ratio']:.1f}x ({r['lowest']:.1f} to {r['highest']:.1f})"
        star = "*" if r["best"] else ""
        row = f"| {name} | {100 * r['score']:.1f} | {r['drop']:.1f} | {r['rate']:,.0f} | {ratio} | {star} |"
        lines.append(row + (f" {r['steps'] or ''} | {r['learning_rate'] or ''} |" if known else ""))
    return lines


def taught_section() -> list[str]:
    """Small models with the same teacher and texts: four layers, mixed or not, beside fewer."""
    lines = []
    for file in sorted((RESULTS / "taught").glob("*.json")):
        record = read_record(file)
        tags = record["task"] == "conll2003"
        lines += [
            f"## Should you use it, from scratch? {TITLES[record['task']]}",
            "",
            f"Small models of our own with one teacher, a fine-tuned MiniLM, and ({'plain ones' if tags else 'all'})",
            "one set of texts, most of them labelled by it alone. Four layers of 256, plain and mixed, beside",
            "plain ones of one layer and of none (words alone). From texts to answers, fp32, in turn, each at its",
            "best batch size (`experiments/taught.sh`). A star: nothing else here is both faster and better.",
            *(["The mixed tagger learned from the task's rows alone: with the other texts it came out worse."] * tags),
            scores_line(record),
            "",
            f"![Accuracy against throughput](frontier-taught-{file.stem}.png)",
            "",
            record["recommendation"]["line"],
            "",
            *frontier_table(record),
            "",
        ]
    return lines


def speed_section() -> list[str]:
    """Every speed and memory record as a table, its picture below it."""
    tables = {"memory": memory_table, "parts": parts_table, "text parts": text_parts_table, "speed": speed_table}
    lines = []
    for file in sorted((RESULTS / "speed").glob("*.json")):
        record = read_record(file)
        heading, *table = tables[record["kind"]](record)
        lines += [f"{heading} (`{file.stem}`)", *table, ""]
        picture = f"speed-{file.stem}.png"
        if record["kind"] == "speed" and (DOCS / picture).exists():
            lines += [f"![{speed_title(record['settings'])}]({picture})", ""]
    if not lines:
        return []
    how = [
        "## Speed and memory",
        "",
        "Measured by `experiments/speed.sh`. Plain is the Hugging Face classifier of the same shape. Everything in one",
        "table ran in one process, in turn, each at the best of several batch sizes. `gate` is ours, `index` the",
        "paper's prefix. Weights are random where no trained model is named: they do not change the time.",
        "Demultiplexers have a hidden layer twice as wide as the encoder where no width is named; the small recipes",
        "train one of 1024.",
        "",
    ]
    return [*how, *lines]


def memory_table(record: dict) -> list[str]:
    rows, settings = record["results"], record["settings"]
    a_pass = f"one pass of {rows[0]['groups']} groups of {rows[0]['tokens']} tokens"
    spread = "lowest" in rows[0]
    lines = [
        f"### Memory: {shape_title(settings)}, {settings['demultiplexer']}, {a_pass}",
        "",
        "Megabytes above what Python and torch take by themselves, each measurement in a process of its own"
        + (f"; medians of {settings['rounds']}." if spread else "."),
        "",
        "| instances a pass | model | peak | against the first row" + " (lowest to highest)" * spread + " |",
        "|---|---|---|---|",
    ]
    for r in rows:
        ratio = f"{r['ratio']:.2f}x" + (f" ({r['lowest']:.2f} to {r['highest']:.2f})" if spread else "")
        lines.append(f"| {r['group_size']} | {r['model']:,.0f} | {r['peak']:,.0f} | {ratio} |")
    return lines


def _rows(titles: list[str], rows: list[list]) -> list[str]:
    """A table in markdown."""
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (titles, *rows)]
    return [lines[0].replace("|  |", "| |"), "|---" * len(titles) + "|", *lines[1:]]


def parts_table(record: dict) -> list[str]:
    settings = record["settings"]
    title = f"{shape_title(record['settings'])}, {settings['tokens']} tokens" + ", bf16" * settings["bf16"]
    if settings.get("demultiplexer", "gate") != "gate":
        title += f", {settings['demultiplexer']}"
    return [
        f"### Where the time goes: {title}",
        "",
        f"Milliseconds a group, in passes of {settings['groups']} groups; median of the rounds.",
        "",
        *_rows(
            ["instances a pass", "mixing", "encoder", "demultiplexer", "head", "the plain model, one instance"],
            [[r["group_size"], *(f"{r[part]:.3f}" for part in PARTS)] for r in record["results"]],
        ),
    ]


def text_parts_table(record: dict) -> list[str]:
    settings = record["settings"]
    return [
        f"### Where the time goes: {shape_title(settings)}, from texts to answers, {settings['lengths']}",
        "",
        "Microseconds a text, one step after the other; the predictor tokenises in the background.",
        "",
        *_rows(
            ["", "instances a pass", "tokenising", "sorting and padding", "model", "answers"],
            [[r["name"], r["group_size"], *(f"{r[step]:.1f}" for step in STEPS)] for r in record["results"]],
        ),
    ]


def speed_table(record: dict) -> list[str]:
    rows = record["results"]
    titles = ["", "instances/s", *ratio_titles(rows), "of the limit", "positions a pass"]
    several = len({r["about"]["engine"] for r in rows}) > 1
    lines = [f"### Speed: {speed_title(record['settings'])}" + ", several engines" * several, ""]
    lines += ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for r, ratios in zip(rows, ratio_cells(rows), strict=True):
        cells = [r["name"], f"{r['rate']:,.0f}", *ratios, share_cell(r), str(r["positions"])]
        lines.append("| " + " | ".join(cells) + " |")
    return lines
