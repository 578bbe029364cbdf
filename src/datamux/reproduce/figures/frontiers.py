"""Accuracy against throughput: one table per task, with everything that was measured side by side."""

from dataclasses import asdict

from datamux.evaluate.frontier import Point, mark_best, recommendation
from datamux.reproduce.catalogue.frontiers import NOTES
from datamux.reproduce.records import Groups, Record
from datamux.reproduce.tables import TITLES, percent, table


def frontier_section(groups: Groups) -> list[str]:
    """Everything beside a pretrained encoder that is cut to fewer layers."""
    lines = []
    for task, (record,) in groups.items():
        about = [
            "Everything ran in one process, one model after the other, from texts to answers, each at its best batch "
            "size. A star marks a setting that nothing else beats: no other is both faster and better.",
            "Models named after a number of layers are one pretrained encoder with its upper layers cut off, "
            "fine-tuned with the same teacher.",
            *NOTES[task],
            "int8 is ONNX Runtime's dynamic quantisation.",
        ]
        lines += _section(f"Should you use it? {TITLES[task]}", about, record, f"frontier-{task}.png")
    return lines[:-1]


def distilled_frontier_section(groups: Groups) -> list[str]:
    """Small models with the same teacher and texts: four layers, mixed or not, beside fewer layers."""
    lines = []
    for task, (record,) in groups.items():
        tags = task == "conll2003"
        about = [
            "These are small models of our own, all with the same teacher, a fine-tuned MiniLM. "
            f"{'The plain models' if tags else 'All of them'} learn from one set of texts, most of them labelled only "
            "by the teacher.",
            "Four layers of 256, plain and mixed, stand beside plain models of one layer and of none (`words alone`). "
            "They ran one after the other, from texts to answers, in fp32, each at its best batch size. A star marks a "
            "setting that nothing else in the table beats: no other is both faster and better.",
            *(["The mixed tagger learned only from the task's rows: with the other texts it came out worse."] * tags),
        ]
        title = f"Should you use it, from scratch? {TITLES[task]}"
        lines += _section(title, about, record, f"frontier-distilled-{task}.png")
    return lines[:-1]


def encoder_frontier_section(groups: Groups) -> list[str]:
    """A tagger from the encoder in the package: four layers, mixed after the second, beside fewer layers."""
    ((task, (record,)),) = groups.items()
    about = [
        "All start from the `encoder` in the package. The plain models (3,000 steps) have a fine-tuned MiniLM as their "
        "teacher and learn from the task's rows and from sentences that it labelled; *2 layers* is the encoder "
        "cut. The mixed one goes on from the plain model of four layers, which is its teacher, for 4,000 "
        "steps on the task's rows alone.",
        "They ran one after the other, from texts to answers, in fp32, each at its best batch size. A star marks a "
        "setting that nothing else in the table beats: no other is both faster and better.",
    ]
    title = f"Should you use it, from the encoder in the package? {TITLES[task]}"
    return _section(title, about, record, f"frontier-encoder-{task}.png")[:-1]


def _section(title: str, about: list[str], record: Record, picture: str) -> list[str]:
    many = record["evaluation"]["groupings"]
    scores = (
        f"The scores of this table were measured with the engine of each row, over {many} random "
        f"grouping{'s'[: many != 1]}. They differ by some tenths of a point from those in the tables of tasks, which "
        "were measured in bf16 over three groupings."
    )
    points = [Point(**row) for row in record["results"]]
    advice = recommendation(points, record["recommendation"]["max_drop"])["line"]
    shown = [f"![Accuracy against throughput]({picture})", "", *frontier_table(record)]
    return [f"## {title}", "", advice, "", *shown, "", *(f"- {sentence}" for sentence in (*about, scores)), ""]


def frontier_table(record: Record) -> list[str]:
    """First the point with which all others are compared, then the others, from the slowest to the fastest."""
    known = "steps" in record["results"][0]  # how each model was trained on the task
    flips = any(r.get("flips") is not None for r in record["results"])  # older records lack them
    rows = []
    several = len({r["engine"] for r in record["results"]}) > 1
    points = [asdict(point) for point in mark_best([Point(**r) for r in record["results"]])]
    for r in [points[0], *sorted(points[1:], key=lambda r: r["ratio"])]:
        name = r["model"] + (f", {r['engine']}" * several) + (f", {r['group_size']} per pass" * (r["group_size"] > 1))
        ratio = f"{r['ratio']:.1f}x ({r['lowest']:.1f} to {r['highest']:.1f})"
        quality = [f"{100 * r['score']:.1f}", *[percent(r["flips"])] * flips, f"{r['drop']:.1f}"]
        cells = [name, *quality, f"{r['rate']:,.0f}", ratio, "*" * r["best"]]
        rows.append(cells + [r["steps"] or "", r["learning_rate"] or ""] * known)
    speed = ["instances/s", "against the first (lowest to highest)"]
    titles = ["", "score", *["answers that flip"] * flips, "points lost", *speed, ""]
    return table(titles + ["steps", "learning rate"] * known, rows)
