"""The cost model beside our CPU records, and what it predicts for GPUs. A prediction is marked as one."""

from statistics import median

from datamux.evaluate.cost_model import H100, RTX_2080, Machine, Shape, narrower, throughput
from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.paper.figure import PaperFigure, Row, row
from datamux.reproduce.paper.measured_figures import STATED
from datamux.reproduce.records import recorded

CHECKED = ("12l-768h-128-tokens", "12l-384h-128-tokens", "4l-768h-128-tokens", "4l-256h-32-tokens")
BALANCES = (0.25, 0.5, 1, 2, 5, 10, 20, 40, 80)  # operations per byte: the one number that is fitted
ON_CPU = "times the plain model, on two CPU cores"
ON_GPU = "times the plain 12L/768H on {} (prediction)"
LONG = "mixed 12L/768H / a plain one as cheap, {} tokens (prediction)"


def _shape(record: dict[str, object], demultiplexer: str | None) -> Shape:
    settings: dict[str, object] = record["settings"]  # type: ignore[assignment]
    shape: dict[str, int] = settings["shape"]  # type: ignore[assignment]
    tokens = int(str(settings["lengths"]).partition(":")[2])
    wide = int(str(settings.get("hidden_dim") or 0))
    return Shape(shape["layers"], shape["hidden"], tokens, wide, prefix=demultiplexer == "index")


def measured() -> list[tuple[str, Shape, int, float]]:
    """(name, shape, texts per pass, times the plain model) of every multiplexed row of the records that are checked."""
    found = []
    for name in CHECKED:
        for record in recorded(EXPERIMENTS[f"speed/{name}"]):
            for result in record["results"]:
                kind = result["about"]["demultiplexer"]
                if kind is not None:
                    found.append((f"{name}, {kind}", _shape(record, kind), result["group_size"], result["ratio"]))
    return found


def fitted() -> tuple[Machine, float]:
    """The machine whose ratio of speed to bandwidth explains our records best, and the median error it leaves."""
    tries = [Machine("two CPU cores", 1e11, 1e11 / balance) for balance in BALANCES]
    errors = [median(errors_of(machine)) for machine in tries]
    return tries[errors.index(min(errors))], min(errors)


def predicted(shape: Shape, k: int, machine: Machine) -> float:
    return throughput(shape, k, machine) / throughput(shape, 0, machine)


def errors_of(machine: Machine) -> list[float]:
    """How far each prediction is from the record, as a share."""
    return [abs(predicted(shape, k, machine) / ratio - 1) for _, shape, k, ratio in measured()]


def cost_rows() -> list[Row]:
    """Measured and predicted ratios on the CPU, predictions for two GPUs, and mixed against narrower plain models."""
    if not measured():
        return []
    machine, _ = fitted()
    rows = []
    for name, shape, k, ratio in measured():
        rows.append(row(f"{name}, measured", k, ON_CPU, ratio))
        rows.append(row(f"{name}, model", k, ON_CPU, predicted(shape, k, machine)))
    base = Shape(12, 768, 128)
    for gpu in (RTX_2080, H100):
        for title, shape in {"12L/768H": base, "12L/384H": Shape(12, 384, 128), "4L/768H": Shape(4, 768, 128)}.items():
            for kind in ("index", "gate"):
                for k in (2, 5, 10, 20, 40):
                    mixed = Shape(shape.layers, shape.hidden, shape.tokens, prefix=kind == "index")
                    times = throughput(mixed, k, gpu) / throughput(base, 0, gpu)
                    like = gpu is RTX_2080 and kind == "index"
                    paper = STATED.get((title, k)) if like else None
                    rows.append(row(f"{title}, {kind}", k, ON_GPU.format(gpu.name), times, paper=paper))
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
