"""Images a second of the networks of the other figures, beside the accuracy that their committed records have.

Every round times every network on the same images, each with as many groups a pass as suit it best, and the plain
network before and after each. Weights are random: they do not change the time. A series has the name of its
figure and its name there. `identity` at N = 1, the plain network, is timed as its bare layers, without our parts.
"""

from statistics import median
from typing import Any

import torch

from datamux.evaluate.records import make_record
from datamux.evaluate.speed import Contender, compare_speed
from datamux.reproduce.accuracy import accuracy_rows
from datamux.reproduce.committed import committed, has_record
from datamux.reproduce.figures import FIGURES
from datamux.reproduce.runs import one_thread
from datamux.reproduce.series import Series
from datamux.tasks.images import Images
from datamux.train.images import slots_of

PLAIN = {"mlp": ("mnist-mlp", "identity"), "cnn": ("mnist-cnn", "identity")}
TIMED: dict[str, tuple[str, ...]] = {
    "mnist-mlp": ("identity", "ortho", "low_rank"),
    "mnist-cnn": ("identity", "ortho", "low_rank", "nonlinear_as_published"),
    "mnist-cnn-kernels": ("rotation", "nonlinear_8x_as_published"),
    "mnist-beaten": (
        *("mlp identity", "mlp ortho", "mlp learned_principal"),
        *("cnn identity", "cnn learned_mosaic", "cnn tiles", "cnn tiles_8x", "cnn nonlinear_8x"),
    ),
}
GROUPS = (25, 100, 400)  # a pass: the batch sizes that are tried
RATE, RATIO = "images a second", "times the plain network's"


def timed_series() -> dict[str, tuple[str, Series]]:
    """What is timed: the figure and the series by the name it has here."""
    found = {(figure, s.name): s for figure in TIMED for s in FIGURES[figure].series}
    return {f"{figure}: {name}": (figure, found[figure, name]) for figure, names in TIMED.items() for name in names}


def speed_record(data: Images, *, rounds: int = 5, count: int = 6400, seconds: float = 0.2) -> dict[str, Any]:
    """Images a second and ratios to the plain network of the same backbone, round by round."""
    results: list[dict[str, Any]] = []
    with one_thread():
        for backbone, (plain_figure, plain_name) in PLAIN.items():
            series = {k: s for k, (_, s) in timed_series().items() if s.network.backbone == backbone}
            plain = f"{plain_figure}: {plain_name}"
            points = [(name, n) for name, s in series.items() for n in s.sizes if (name, n) != (plain, 1)]
            bare = series[plain].network.build_plain().eval()
            models = [bare, *(series[name].network.build(n).eval() for name, n in points)]
            contenders = [
                Contender(f"{name} {n}", _Answer(model, data.test_images), n, tokens=1.0)
                for (name, n), model in zip([(plain, 1), *points], models, strict=True)
            ]
            found = compare_speed(contenders, rounds=rounds, seconds=seconds, samples=count, positions=GROUPS)
            for (name, n), speed in zip([(plain, 1), *points], found, strict=True):
                results.append({"series": name, "n": n, "rates": speed.rates, "ratios": speed.ratios})
    settings = {"rounds": rounds, "images": count, "threads": 1}
    return make_record(
        "speed", recipe=None, figure="mnist-speed", settings=settings, data=data.about(), results=results
    )


class _Answer:
    """Answers the first images (over and over, if there are too few), so many groups a pass."""

    def __init__(self, model: torch.nn.Module, images: torch.Tensor) -> None:
        self.model = model
        self.images = images
        self.slots = slots_of(model)

    @torch.inference_mode()
    def __call__(self, instances: int, positions: int) -> None:
        images = self.images[torch.arange(instances) % len(self.images)]
        for some in torch.split(images, positions * self.slots):
            self.model(some)


def speed_rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """For every point its images a second, the ratio, and its accuracy where there is a record of the same data.

    The spread of a speed is half of what lies between the slowest round and the fastest.
    """
    known = _accuracies(record["data"])
    rows = []
    for result in record["results"]:
        point = {"series": result["series"], "n": result["n"]}
        for metric, seen in ((RATE, result["rates"]), (RATIO, result["ratios"])):
            spread = (max(seen) - min(seen)) / 2
            rows.append({**point, "metric": metric, "value": median(seen), "spread": spread, "seeds": 1, "paper": None})
        if (result["series"], result["n"]) in known:
            rows.append({**known[result["series"], result["n"]], **point})
    return rows


def without_accuracy(record: dict[str, Any]) -> list[str]:
    """The figures whose accuracy cannot stand beside a speed, because no record of the same data is committed."""
    figures = dict.fromkeys(result["series"].partition(": ")[0] for result in record["results"])
    return [name for name in figures if not _comparable(name, record["data"])]


def _comparable(figure: str, data: dict[str, Any]) -> bool:
    return has_record(figure) and committed(figure)["data"] == data


def _accuracies(data: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    return {
        (f"{figure}: {row['series']}", row["n"]): row
        for figure in TIMED
        if _comparable(figure, data)
        for row in accuracy_rows(committed(figure))
    }
