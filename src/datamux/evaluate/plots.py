"""Pictures of run records. matplotlib is imported only here, and only when something is drawn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datamux.evaluate.speed_table import against_first, is_baseline

# The paper's throughput at N instances per pass, against its 12L/768H model without multiplexing: that model's, and its
# smaller models' (Section 5, A2). Those are also faster because they are small, so their share of N says nothing.
LIKE_OURS = "the paper, 12L/768H, GPU"
PAPER = {
    LIKE_OURS: ("k*", {20: 11.0, 40: 18.0}),
    "the paper, smaller models, GPU": ("k^", {20: 25.0}),
}

MARKS = "osD^vP"  # one per engine


def draw_speed(record: dict[str, Any], file: Path) -> None:
    """Throughput against the first row, by group size; and how much of the N-fold gain each engine reached."""
    pyplot = pyplot_without_window()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), sharex=True, layout="constrained")
    found = record["results"]
    rows = [row | {"first": ratio} for row, ratio in zip(found, against_first(found), strict=True)]
    mixed = [row for row in rows if row["group_size"] > 1]
    baseline = {row["about"]["engine"]: row["first"] for row in rows if is_baseline(row)}
    largest = max([row["group_size"] for row in mixed] + [k for _, points in PAPER.values() for k in points])
    left.plot([1, largest], [1, largest], ":", color="gray", label="N times")
    for name in dict.fromkeys(map(_series, mixed)):
        series = [row for row in mixed if _series(row) == name]
        sizes = [row["group_size"] for row in series]
        spread = [
            [row["first"] * (1 - row["lowest"] / row["ratio"]) for row in series],
            [row["first"] * (row["highest"] / row["ratio"] - 1) for row in series],
        ]
        line = left.errorbar(sizes, [row["first"] for row in series], spread, marker="o", capsize=3, label=name)
        left.plot([1], [baseline[series[0]["about"]["engine"]]], "x", color=line[0].get_color())
        right.plot(sizes, [row["ratio"] / row["group_size"] for row in series], "o-", label=name)
    for name, (mark, points) in PAPER.items():
        left.plot(list(points), list(points.values()), mark, markersize=9, label=name)
    paper = PAPER[LIKE_OURS]
    right.plot(list(paper[1]), [ratio / k for k, ratio in paper[1].items()], paper[0], markersize=9)
    for row in rows:
        if row["name"].startswith("plain "):  # a smaller plain model, which a user could run instead
            left.axhline(row["first"], linestyle="--", color="gray", linewidth=1)
            place = (0.99, row["first"])  # at the right edge, as high as its line
            left.text(*place, row["name"], transform=left.get_yaxis_transform(), fontsize=7, ha="right", va="bottom")
    right.axhline(1.0, linestyle=":", color="gray")
    right.set_ylim(0, max(1.1, *(1.05 * row["ratio"] / row["group_size"] for row in mixed)))
    left.set(xlabel="instances per pass (N); x: the plain model", ylabel=f"times the throughput of {rows[0]['name']}")
    right.set(xlabel="instances per pass (N)", ylabel="share of N times, same engine")
    figure.suptitle(f"{speed_title(record['settings'])}, against the plain model at its best batch size", fontsize=10)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    save_figure(figure, file)


def speed_title(settings: dict[str, Any]) -> str:
    """The shape of the models, what they work from, and how long the texts are."""
    source = "from texts to answers" if settings["texts"] else "from token ids"
    return f"{shape_title(settings)}, {source}, lengths {settings['lengths']}"


def shape_title(settings: dict[str, Any]) -> str:
    shape, near = settings["shape"], settings.get("head_context")
    title = f"{shape['layers']}L/{shape['hidden']}H" + (", tagging" if shape["token_level"] else "")
    title += f" with {near} neighbours on either side" if near else ""
    return title + (f", demultiplexer {settings['hidden_dim']} wide" if settings.get("hidden_dim") else "")


def draw_frontier(record: dict[str, Any], file: Path) -> None:
    """Accuracy against throughput: one colour per model, one mark per engine, and rings around the best points."""
    pyplot = pyplot_without_window()
    from matplotlib.ticker import LogLocator

    figure, axes = pyplot.subplots(figsize=(11, 5.5), layout="constrained")
    rows = even_rates(record["results"], record["results"][0])
    models, engines = list(dict.fromkeys(row["model"] for row in rows)), list(dict.fromkeys(r["engine"] for r in rows))
    for name in dict.fromkeys((row["model"], row["engine"]) for row in rows):
        series = sorted((r for r in rows if (r["model"], r["engine"]) == name), key=lambda r: r["rate"])
        look = {"color": f"C{models.index(name[0])}", "marker": MARKS[engines.index(name[1]) % len(MARKS)]}
        label = ", ".join(name) if len(engines) > 1 else name[0]
        axes.plot([r["rate"] for r in series], [100 * r["score"] for r in series], label=label, **look)
        for r in series:
            if r["group_size"] > 1:
                place = (r["rate"], 100 * r["score"])
                axes.annotate(str(r["group_size"]), place, xytext=(4, 4), textcoords="offset points", fontsize=8)
    best = [r for r in rows if r["best"]]
    axes.plot(
        [r["rate"] for r in best], [100 * r["score"] for r in best], "o", mfc="none", mec="k", ms=12, label="best"
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:,.0f}")  # 2,000, not 2 x 10^3
    axes.xaxis.set_minor_formatter("")
    axes.set(
        xlabel="instances per second, texts to answers (the first model's, times the ratio to it)",
        ylabel="score, percent",
    )
    axes.set_title(f"{record['task']}: what throughput costs (numbers: instances per pass)")
    axes.grid(alpha=0.3, which="both")
    figure.legend(loc="outside right upper", fontsize=8)
    save_figure(figure, file)


def even_rates(rows: Sequence[dict[str, Any]], first: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows with rates as if the machine had always been as fast as for the `first`. The best are chosen by them."""
    return [row | {"rate": first["rate"] * row["ratio"] / first["ratio"]} for row in rows]


def save_figure(figure: Any, file: Path) -> None:
    """Write a figure to a file. A png does not name the matplotlib version, so that equal figures are equal files."""
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120, metadata={"Software": None} if file.suffix.lower() == ".png" else None)
    pyplot_without_window().close(figure)


def _series(row: dict[str, Any]) -> str:
    return f"{row['about']['demultiplexer']}, {row['about']['engine']}"


def pyplot_without_window() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
