"""Pictures of run records. matplotlib is imported here alone, and only when something is drawn."""

from pathlib import Path
from typing import Any

# The paper's throughput at N instances a pass, against its 12L/768H model without multiplexing: that model's, and its
# smaller models' (Section 5, A2), which gain by being small as well and so may lie above the limit.
PAPER = {
    "the paper, 12L/768H, GPU": ("k*", {20: 11.0, 40: 18.0}),
    "the paper, smaller models, GPU": ("k^", {20: 25.0}),
}

MARKS = "osD^vP"  # of the engines


def draw_speed(record: dict[str, Any], file: Path) -> None:
    """Throughput against the group size, and how much of the possible N-fold gain was reached."""
    pyplot = pyplot_without_window()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    rows = [row for row in record["results"] if row["group_size"] > 1]
    sizes = sorted({row["group_size"] for row in rows})
    left.plot(sizes, sizes, ":", color="gray", label="the limit: N times")
    for name in sorted({_series(row) for row in rows}):
        own = [row for row in rows if _series(row) == name]
        x, ratio = [row["group_size"] for row in own], [row["ratio"] for row in own]
        below = [row["ratio"] - row["lowest"] for row in own]
        above = [row["highest"] - row["ratio"] for row in own]
        left.errorbar(x, ratio, [below, above], marker="o", capsize=3, label=name)
        right.plot(x, [r / k for r, k in zip(ratio, x, strict=True)], "o-", label=name)
    for name, (mark, points) in PAPER.items():
        left.plot(list(points), list(points.values()), mark, markersize=9, label=name)
        right.plot(list(points), [ratio / k for k, ratio in points.items()], mark, markersize=9)
    for row in record["results"]:
        if row["name"].startswith("plain "):  # of another size: what a user could do instead
            left.axhline(row["ratio"], linestyle="--", color="gray", linewidth=1)
            place = (0.97, row["ratio"])  # across the picture, and as high as its line
            left.text(*place, row["name"], transform=left.get_yaxis_transform(), fontsize=8, ha="right", va="bottom")
    right.axhline(1.0, linestyle=":", color="gray")
    right.set_ylim(0, 1.35)
    left.set(xlabel="instances a pass (N)", ylabel="times the plain model's throughput")
    right.set(xlabel="instances a pass (N)", ylabel="efficiency: share of the limit, ratio / N")
    shape, lengths = record["settings"]["shape"], record["settings"]["lengths"]
    figure.suptitle(f"{shape['layers']}L/{shape['hidden']}H, {lengths}, against the plain model at its best batch size")
    left.legend(fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def draw_frontier(record: dict[str, Any], file: Path) -> None:
    """Accuracy against throughput: a colour a model, a mark an engine, the best points ringed."""
    pyplot = pyplot_without_window()
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    rows = record["results"]
    models, engines = list(dict.fromkeys(row["model"] for row in rows)), list(dict.fromkeys(r["engine"] for r in rows))
    for name in dict.fromkeys((row["model"], row["engine"]) for row in rows):
        own = sorted((r for r in rows if (r["model"], r["engine"]) == name), key=lambda r: r["rate"])
        look = {"color": f"C{models.index(name[0])}", "marker": MARKS[engines.index(name[1]) % len(MARKS)]}
        label = ", ".join(name) if len(engines) > 1 else name[0]
        axes.plot([r["rate"] for r in own], [100 * r["score"] for r in own], label=label, **look)
        for r in own:
            if r["group_size"] > 1:
                place = (r["rate"], 100 * r["score"])
                axes.annotate(str(r["group_size"]), place, xytext=(4, 4), textcoords="offset points", fontsize=8)
    best = [r for r in rows if r["best"]]
    axes.plot(
        [r["rate"] for r in best], [100 * r["score"] for r in best], "o", mfc="none", mec="k", ms=12, label="best"
    )
    axes.set_xscale("log")
    axes.set(xlabel="instances a second, texts to answers", ylabel="score, percent")
    axes.set_title(f"{record['task']}: what throughput costs (numbers: instances a pass)")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def _series(row: dict[str, Any]) -> str:
    return f"{row['about']['demultiplexer']}, {row['about']['engine']}"


def pyplot_without_window() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
