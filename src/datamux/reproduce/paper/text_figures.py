"""The paper's figures of scores against N, as lists of points. The mini scale has 120 dimensions, the paper 768."""

from collections.abc import Iterator

from datamux.reproduce.catalogue.mini import (
    ABLATED,
    EQUAL_COST,
    LONGEST_TEXT,
    OUR_DEMULTIPLEXERS,
    OUR_MULTIPLEXERS,
    SIZES,
)
from datamux.reproduce.paper.figure import PaperFigure, Point, of_points

PUBLISHED, PAPER, OURS = "Hadamard, as published", "Hadamard, as the paper says", "ours, one checkpoint"
ORTHO, PLAIN, OUR_PLAIN = "Ortho, as the paper says", "plain", "plain, our head"
NO_WARMUP = "Hadamard, no warm-up"
LARGER, LARGER_PLAIN = "ours, 4L/256H", "plain, 4L/256H"
# The models of 4L/256H learned from fewer rows of QQP, MNLI and QNLI, and on MNLI other rows scored them.
LARGER_TASKS = ("sst2", "conll2003")
MIXED, AS_CHEAP = "mixed, full width", "plain, as cheap"
METRICS = {"sst2": "SST-2 accuracy", "conll2003": "CoNLL-2003 F1", "qqp": "QQP accuracy"}
METRICS |= {"mnli": "MNLI accuracy", "qnli": "QNLI accuracy"}
RETRIEVAL = "retrieval accuracy"
INDEXED_PAPER = f"{PAPER}, SST-2"
PAPER_KEYS = {"index": ("hadamard", "ortho", "learned", "binary"), "mlp": ("hadamard", "ortho")}
PAPER_WARMUPS = tuple(f"{keys}, {part}" for part, some in PAPER_KEYS.items() for keys in some)


def _task_points(task: str) -> Iterator[Point]:
    metric, mini = METRICS[task], f"mini-{task}"
    yield Point(PLAIN, 1, metric, f"{mini}/plain")
    yield Point("plain, warmed up", 1, metric, f"{mini}/plain-warmed-up")
    yield Point(OUR_PLAIN, 1, metric, f"{mini}/plain-ours")
    for n in SIZES:
        yield Point(PUBLISHED, n, metric, f"{mini}/hadamard-index-n{n}-published")
        yield Point(PAPER, n, metric, f"{mini}/hadamard-index-n{n}")
        yield Point(ORTHO, n, metric, f"{mini}/ortho-index-n{n}")
    yield from (Point(OURS, k, metric, f"{mini}/ours-n10") for k in (1, *SIZES))
    if task in LARGER_TASKS:
        yield Point(LARGER_PLAIN, 1, metric, f"{task}/scratch-plain")
        yield from (Point(LARGER, k, metric, f"{task}/scratch-n20") for k in (1, 2, 5, 10, 20))
    if task == "sst2":
        wide = "ours, 2L/512H, no warm-up"
        yield Point("plain, 2L/512H", 1, metric, "sst2/scratch-plain-2l-512h")
        yield from (Point(wide, k, metric, "sst2/scratch-n40-no-warmup-2l-512h") for k in (1, 2, 5, 10, 20, 40))


def _retrieval_points() -> Iterator[Point]:
    stated = {20: 100.0}  # "nearly 100 % for up to 20 instances"
    for part in PAPER_WARMUPS:
        name = part.replace(", ", "-")
        yield from (Point(part, n, RETRIEVAL, f"mini-retrieval/{name}-n{n}") for n in SIZES)
    for part in ("", *OUR_MULTIPLEXERS, *OUR_DEMULTIPLEXERS):
        name = f"ours, {part}" if part else OURS
        experiment = f"mini-retrieval/ours{'-' * bool(part)}{part}-n10"
        yield from (Point(name, k, RETRIEVAL, experiment) for k in (1, *SIZES))
    yield from (Point(LARGER, k, RETRIEVAL, "retrieval/scratch-n20", paper=stated.get(k)) for k in (1, 2, 5, 10, 20))
    name = "retrieval/scratch-n40-2l-512h-more"
    yield from (Point("ours, 2L/512H", k, RETRIEVAL, name, paper=stated.get(k)) for k in (1, 2, 5, 10, 20, 40))


def _shape_points(shapes: dict[str, str]) -> Iterator[Point]:
    for name, shape in shapes.items():
        for n in SIZES:
            yield Point(name, n, RETRIEVAL, f"mini-retrieval/hadamard-index{shape}-n{n}")
            for task in ABLATED:
                yield Point(name, n, METRICS[task], f"mini-{task}/hadamard-index{shape}-n{n}")


def _part_points(parts: dict[str, str]) -> Iterator[Point]:
    for name, part in parts.items():
        yield from (Point(name, n, RETRIEVAL, f"mini-retrieval/{part}-n{n}") for n in SIZES)
        yield from (Point(name, n, METRICS[task], f"mini-{task}/{part}-n{n}") for task in ABLATED for n in SIZES)


def _size_points() -> Iterator[Point]:
    for task in ABLATED:
        for hidden in (12, 24, 60, 120, 240):
            name = "plain" if hidden == 120 else f"plain-3l-{hidden}h"
            yield Point("3 layers, width", hidden, METRICS[task], f"mini-{task}/{name}", 1)
        for layers in (0, 1, 2, 3, 6):
            name = "plain" if layers == 3 else f"plain-{layers}l-120h"
            yield Point("width 120, layers", layers, METRICS[task], f"mini-{task}/{name}", 1)


def _seed_points() -> Iterator[Point]:
    for task in ("sst2", "conll2003", "qqp", "mnli"):
        yield from (Point(PAPER, n, METRICS[task], f"mini-{task}/hadamard-index-n{n}") for n in SIZES)
    yield from (Point(LARGER, k, METRICS["sst2"], "sst2/scratch-n20") for k in (1, 2, 5, 10, 20))


def _warmup_points() -> Iterator[Point]:
    for task in ABLATED:
        for n in SIZES:
            yield Point(PAPER, n, METRICS[task], f"mini-{task}/hadamard-index-n{n}")
            yield Point(NO_WARMUP, n, METRICS[task], f"mini-{task}/hadamard-index-n{n}-no-warmup")


def _equal_cost_points() -> Iterator[Point]:
    """A mixed network of width 120, and the plain one of width 120 / sqrt(k), which costs as much per text."""
    for task in ABLATED:
        yield Point("plain, full width", 1, METRICS[task], f"mini-{task}/plain-ours")
        for k, hidden in EQUAL_COST.items():
            mixed = f"ours-n{10 if k <= 10 else max(EQUAL_COST)}"
            yield Point(MIXED, k, METRICS[task], f"mini-{task}/{mixed}")
            yield Point(AS_CHEAP, k, METRICS[task], f"mini-{task}/plain-ours-3l-{hidden}h", 1)


TEXT_FIGURES: tuple[PaperFigure, ...] = (
    of_points(
        "tasks",
        "Figure 3, (R1)",
        "Four sentence tasks and names in news, against N",
        [point for task in LONGEST_TEXT for point in _task_points(task)],
    ),
    of_points("retrieval-accuracy", "Figure 4b, (R2)", "The retrieval warm-up, against N", [*_retrieval_points()]),
    of_points("warm-up", "Section 3.3", "With the retrieval warm-up, and without it", [*_warmup_points()]),
    of_points(
        "heads",
        "Figure 5a, (A1)",
        "Two attention heads against six",
        [*_shape_points({"six heads": "", "two heads": "-2-heads"})],
    ),
    of_points(
        "smaller-models",
        "Figure 5b, (A2)",
        "Smaller models",
        [*_shape_points({"3L/120H": "", "3L/60H": "-3l-60h", "1L/120H": "-1l-120h"})],
    ),
    of_points("seeds", "Appendix, variance over seeds", "Three seeds from one warm-up", [*_seed_points()]),
    of_points(
        "keys",
        "Appendix, alternate multiplexing strategies",
        "Gaussian, learned and binary keys",
        [*_part_points({"Gaussian": "hadamard-index", "learned": "learned-index", "binary": "binary-index"})],
    ),
    of_points(
        "mlp-demultiplexer",
        "Appendix, MLP demultiplexing",
        "One network per slot instead of the prefix",
        [*_part_points({"prefix": "hadamard-index", "MLP": "hadamard-mlp"})],
    ),
    of_points(
        "sizes",
        "Appendix, smaller models",
        "Width and depth of plain models",
        [*_size_points()],
        x="width, or number of layers",
    ),
    of_points(
        "equal-cost",
        "Not in the paper",
        "Mixed, or a plain network that is as cheap",
        [*_equal_cost_points()],
    ),
)
