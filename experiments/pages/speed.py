"""Speed, memory, and accuracy against throughput."""

from datamux.evaluate.records import read_record
from pages.common import DOCS, RESULTS, TITLES


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
            "are one pretrained encoder, its upper layers cut off and fine-tuned with the same teacher; the small",
            "ones are those in the package, and 1L/64H a plain one with their teacher. int8 is ONNX Runtime's dynamic",
            "quantisation.",
            "",
            f"![Accuracy against throughput](frontier-{file.stem}.png)",
            "",
            "| | score | points lost | instances/s | against the first (lowest to highest) | |",
            "|---|---|---|---|---|---|",
        ]
        first = record["results"][0]
        several = len({r["engine"] for r in record["results"]}) > 1
        for r in sorted(record["results"], key=lambda r: (r is not first, r["rate"])):
            name = r["model"] + (f", {r['engine']}" * several) + (f", {r['group_size']} a pass" * (r["group_size"] > 1))
            ratio = f"{r['ratio']:.1f}x ({r['lowest']:.1f} to {r['highest']:.1f})"
            star = "*" if r["best"] else ""
            lines.append(f"| {name} | {100 * r['score']:.1f} | {r['drop']:.1f} | {r['rate']:,.0f} | {ratio} | {star} |")
        lines.append("")
    return lines


def speed_section() -> list[str]:
    """Every speed and memory record as a table, its picture below it."""
    lines = []
    for file in sorted((RESULTS / "speed").glob("*.json")):
        record = read_record(file)
        settings, rows = record["settings"], record["results"]
        shape = settings["shape"]
        title = f"{shape['layers']}L/{shape['hidden']}H" + (", tagging" if shape["token_level"] else "")
        if settings.get("head_context"):
            title += f" with {settings['head_context']} neighbours on either side"
        title += ", with a bypass" * bool(settings.get("bypass"))
        if record["kind"] == "memory":
            lines += [
                f"### Memory: {title}, one pass of {rows[0]['groups']} groups of {rows[0]['tokens']} tokens",
                "",
                "Megabytes above what Python and torch take by themselves, each row in a process of its own.",
                "",
                "| instances a pass | model | peak | against the first row |",
                "|---|---|---|---|",
                *(f"| {r['group_size']} | {r['model']:,.0f} | {r['peak']:,.0f} | {r['ratio']:.2f}x |" for r in rows),
                "",
            ]
            continue
        if record["kind"] == "parts":
            lines += [
                f"### Where the time goes: {title}, {settings['tokens']} tokens" + (", bf16" * settings["bf16"]),
                "",
                f"Milliseconds a group, in passes of {settings['groups']} groups; median of the rounds.",
                "",
                "| instances a pass | mixing | encoder | demultiplexer | head | the plain model, one instance |",
                "|---|---|---|---|---|---|",
                *(
                    f"| {r['group_size']} | {r['mixing']:.3f} | {r['encoder']:.3f} | {r['demultiplexer']:.3f} "
                    f"| {r['head']:.3f} | {r['plain']:.3f} |"
                    for r in rows
                ),
                "",
            ]
            continue
        what = "from texts to answers, " if settings["texts"] else "from token ids, "
        lines += [
            f"### Speed: {title}, {what}lengths {settings['lengths']}",
            "",
            "| | instances/s | against plain, same engine (lowest to highest) | of the limit | positions a pass |",
            "|---|---|---|---|---|",
        ]
        for r in rows:
            limit = f"{r['ratio'] / r['group_size']:.0%}" if r["group_size"] > 1 else ""
            ratio = f"{r['ratio']:.2f}x ({r['lowest']:.2f} to {r['highest']:.2f})"
            lines.append(f"| {r['name']} | {r['rate']:,.0f} | {ratio} | {limit} | {r['positions']} |")
        picture = f"speed-{file.stem}.png"
        lines += ["", *([f"![{title}]({picture})", ""] if (DOCS / picture).exists() else [])]
    if not lines:
        return []
    how = [
        "## Speed and memory",
        "",
        "Measured by `experiments/speed.sh`. Plain is the Hugging Face classifier of the same shape. Everything in one",
        "table ran in one process, in turn, each at the best of several batch sizes. `gate` is ours, `index` the",
        "paper's prefix. Weights are random where no trained model is named: they do not change the time.",
        "",
    ]
    return [*how, *lines]
