"""The cost model beside our CPU records, and what it predicts for GPUs. A prediction is marked as one."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.catalogue.speed import AS_CHEAP, EQUAL_COST_TOKENS
from datamux.reproduce.paper.cost_model import H100, RTX_2080, Machine, Shape, narrower, throughput
from datamux.reproduce.paper.figure import PaperFigure, Row, row
from datamux.reproduce.paper.measured_figures import STATED
from datamux.reproduce.records import recorded

EQUAL_COST = tuple(f"4l-256h-{tokens}-tokens-equal-cost" for tokens in EQUAL_COST_TOKENS)
CHECKED = ("12l-768h-128-tokens", "12l-384h-128-tokens", "4l-768h-128-tokens", "4l-256h-32-tokens", *EQUAL_COST)
BALANCES = (0.25, 0.5, 1, 2, 5, 10, 20, 40, 80)  # operations per byte: the one number that is fitted
AS_GOOD = 0.01  # two balances explain the records equally well if their median errors are this close
ON_CPU = "times the plain model, on two CPU cores"
NARROW = "plain models of other sizes: times the plain 4L/256H, on two CPU cores (N = their width)"
AGAINST = "mixed 4L/256H / a plain one as cheap, on two CPU cores"
ON_GPU = "times the plain 12L/768H on {} (prediction)"
LONG = "mixed 12L/768H / a plain one as cheap, {} tokens (prediction)"


@dataclass(frozen=True)
class Measured:
    """One row of a record: how many times faster it is than the plain model `base`. k = 0: a plain model, too."""

    name: str
    shape: Shape
    k: int
    base: Shape
    ratio: float

    def error(self, machine: Machine) -> float:
        """How far the prediction is from the record, as a share; positive if it is too high."""
        return predicted(self.shape, self.k, machine, self.base) / self.ratio - 1


def measured(names: Sequence[str] = CHECKED) -> list[Measured]:
    """Every row of the records that are checked, except for the plain models that the others are compared with."""
    return [
        found
        for name in names
        for record in recorded(EXPERIMENTS[f"speed/{name}"])
        for result in record["results"]
        if (found := _measured(name, record["settings"], result)) is not None
    ]


def _measured(name: str, settings: dict[str, Any], result: dict[str, Any]) -> Measured | None:
    sizes, tokens = settings["shape"], int(str(settings["lengths"]).partition(":")[2])
    base = Shape(sizes["layers"], sizes["hidden"], tokens)
    kind = result["about"]["demultiplexer"]
    if kind is not None:
        wide = int(settings.get("hidden_dim") or 0)
        shape = Shape(base.layers, base.hidden, tokens, wide, prefix=kind == "index")
        return Measured(f"{name}, {kind}", shape, result["group_size"], base, result["ratio"])
    title = result["name"].partition(",")[0]  # "plain", or "plain 1x64"
    _, _, size = title.partition(" ")
    if not size:
        return None
    layers, hidden = map(int, size.split("x"))
    return Measured(f"{name}, {title}", Shape(layers, hidden, tokens), 0, base, result["ratio"])


def predicted(shape: Shape, k: int, machine: Machine, base: Shape | None = None) -> float:
    """Times the throughput of the plain model `base`; without one, of the plain model of the same shape."""
    return throughput(shape, k, machine) / throughput(base or shape, 0, machine)


def fitted() -> tuple[Machine, tuple[float, float]]:
    """The machine whose ratio of speed to bandwidth explains our records best, and the range that does as well."""
    tries = {balance: Machine("two CPU cores", 1e11, 1e11 / balance) for balance in BALANCES}
    errors = {b: median(abs(m.error(machine)) for m in measured()) for b, machine in tries.items()}
    as_good = [balance for balance, error in errors.items() if error <= min(errors.values()) + AS_GOOD]
    return tries[min(errors, key=lambda balance: errors[balance])], (min(as_good), max(as_good))


def on_the_papers_gpu() -> dict[str, tuple[float, float]]:
    """What the model predicts for the paper's GPU, and what the paper measured: by shape and N."""
    base, found = Shape(12, 768, 128), {}
    for (title, k), stated in STATED.items():
        layers, hidden = (int(part[:-1]) for part in title.split("/"))
        mixed = Shape(layers, hidden, 128, prefix=True)
        found[f"{title} at N = {k}"] = (predicted(mixed, k, RTX_2080, base), stated)
    return found


def cost_rows() -> list[Row]:
    """Measured and predicted ratios on the CPU, predictions for two GPUs, and mixed against narrower plain models."""
    if not measured():
        return []
    machine, _ = fitted()
    return [*_checked_rows(machine), *_rival_rows(machine), *_gpu_rows(), *_long_rows()]


def _checked_rows(machine: Machine) -> list[Row]:
    """The records of the usual lengths; those of equal cost have a panel of their own."""
    rows = []
    for m in sorted(measured(CHECKED[: -len(EQUAL_COST)]), key=lambda m: m.k == 0):
        metric, n = (ON_CPU, m.k) if m.k else (NARROW, m.shape.hidden)
        name = m.name if m.k else m.name.partition(",")[0]
        rows.append(row(f"{name}, measured", n, metric, m.ratio))
        rows.append(row(f"{name}, model", n, metric, predicted(m.shape, m.k, machine, m.base)))
    return rows


def _rival_rows(machine: Machine) -> list[Row]:
    """A mixed network beside the plain one that costs as much per text, at growing lengths."""
    rows = []
    for tokens, name in zip(EQUAL_COST_TOKENS, EQUAL_COST, strict=True):
        found = {(m.shape.hidden, m.k): m for m in measured([name])}
        for k, size in AS_CHEAP.items() if found else ():
            mixed, rival = found[256, k], found[int(size.partition("x")[2]), 0]
            against = [predicted(m.shape, m.k, machine, m.base) for m in (mixed, rival)]
            rows.append(row(f"{tokens} tokens, measured", k, AGAINST, mixed.ratio / rival.ratio))
            rows.append(row(f"{tokens} tokens, model", k, AGAINST, against[0] / against[1]))
    return rows


def _gpu_rows() -> list[Row]:
    rows = []
    base = Shape(12, 768, 128)
    for gpu in (RTX_2080, H100):
        for title, shape in {"12L/768H": base, "12L/384H": Shape(12, 384, 128), "4L/768H": Shape(4, 768, 128)}.items():
            for kind in ("index", "gate"):
                for k in (2, 5, 10, 20, 40):
                    mixed = Shape(shape.layers, shape.hidden, shape.tokens, prefix=kind == "index")
                    like = gpu is RTX_2080 and kind == "index"
                    paper = STATED.get((title, k)) if like else None
                    times = predicted(mixed, k, gpu, base)
                    rows.append(row(f"{title}, {kind}", k, ON_GPU.format(gpu.name), times, paper=paper))
    return rows


def _long_rows() -> list[Row]:
    rows = []
    for tokens in (128, 512, 2048):
        for gpu in (RTX_2080, H100):
            for k in (4, 9, 16):
                mixed = Shape(12, 768, tokens)
                against = throughput(mixed, k, gpu) / throughput(narrower(mixed, k), 0, gpu)
                rows.append(row(gpu.name, k, LONG.format(tokens), against))
    return rows


COST_FIGURE = PaperFigure(
    "cost-model",
    "Not in the paper",
    "What a pass should cost, from its shapes",
    tuple(f"speed/{name}" for name in CHECKED),
    cost_rows,
)
