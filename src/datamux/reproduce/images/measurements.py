"""What the image experiments measure: trained networks, a picture, principal components, speed. Each gives a record."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import torch
from torch import Tensor

from datamux.errors import check_at_least_one
from datamux.evaluate.records import make_record
from datamux.evaluate.timing import Contender, Work, compare_speed
from datamux.reproduce.catalogue import get_experiment
from datamux.reproduce.experiment import Experiment, Series, settings_of
from datamux.reproduce.images.runs import VERSION, Progress, Run, build_all, finished, one_thread, perform_all, trained
from datamux.reproduce.images.torch_again import torch_again_record
from datamux.vision.digits import Images
from datamux.vision.training import slots_of

Record = dict[str, Any]
OpenProgress = Callable[[float, float], Progress]  # given the cost of all runs, and of those that are finished
ACCURACY = "accuracy, %"
PICTURED = 3  # groups of digits in the picture
COMPONENTS = 50
PLAIN = {"mlp": "mnist-mlp: identity", "cnn": "mnist-cnn: identity"}
TIMED: dict[str, tuple[str, ...]] = {
    "mnist-mlp": ("identity", "ortho", "low_rank"),
    "mnist-cnn": ("identity", "ortho", "low_rank", "nonlinear_as_published"),
    "mnist-cnn-kernels": ("rotation", "nonlinear_8x_as_published"),
    "mnist-ours": (
        *("mlp identity", "mlp ortho", "mlp learned_principal"),
        *("cnn identity", "cnn learned_mosaic", "cnn tiles", "cnn tiles_8x", "cnn nonlinear_8x"),
    ),
}
GROUPS = (25, 100, 400)  # per pass: the batch sizes that are tried


def measure(
    experiment: Experiment,
    data: Images,
    runs: Path,
    *,
    jobs: int = 1,
    open_progress: OpenProgress = lambda total, done: lambda cost: None,
    more_runs: Sequence[Path] = (),
) -> Record:
    """The record of an image experiment. Networks that were trained before are found in `runs` or `more_runs`."""
    check_at_least_one("jobs", jobs)
    if experiment.kind == "pca":
        return pca_record(data)
    if experiment.kind == "image speed":
        return speed_record(data)
    if experiment.kind == "torch again":
        return torch_again_record(data, runs)
    wanted = [Run(s, n, seed) for s in experiment.series for n in s.sizes for seed in experiment.seeds]
    total = sum(run.cost for run in wanted)
    if experiment.kind == "picture":
        return picture_record(experiment.series, data, progress=open_progress(total, 0))

    def stored(run: Run) -> Record | None:
        return next((file for folder in (runs, *more_runs) if (file := finished(run, folder, data))), None)

    waiting = [run for run in wanted if stored(run) is None]
    build_all(waiting, data)
    progress = open_progress(total, total - sum(run.cost for run in waiting))
    perform_all(waiting, runs, data, jobs=jobs, progress=progress)
    found = [file for run in wanted if (file := stored(run)) is not None]
    return make_record(
        "images",
        recipe=settings_of(experiment.series),
        version=VERSION,
        data=data.about(),
        made_by=_makers(found),
        results=[{"series": run.series.name, **file["result"]} for run, file in zip(wanted, found, strict=True)],
    )


def _makers(finished_runs: Sequence[Record]) -> list[Record]:
    """Which code on which machine made how many of the runs, and when."""
    makers: list[Record] = []
    for file in finished_runs:
        made_by = dict(file["made_by"])
        date = made_by.pop("date")
        same = next((maker for maker in makers if made_by.items() <= maker.items()), None)
        if same is None:
            makers.append({**made_by, "runs": 1, "first": date, "last": date})
        else:
            same.update(runs=same["runs"] + 1, first=min(same["first"], date), last=max(same["last"], date))
    return makers


def picture_record(
    chosen: Sequence[Series], data: Images, *, seed: int = 0, progress: Progress = lambda cost: None
) -> Record:
    """Train each series; keep the first groups of the test set, the mixture each network sees, and its answers.

    The record keeps the pixels, so that the picture can be drawn again without training.
    """
    (n,) = {n for series in chosen for n in series.sizes}
    images, labels = data.test_images[: PICTURED * n], data.test_labels[: PICTURED * n]
    groups: list[Record] = [
        {
            "digits": images[g * n : (g + 1) * n].mul(255).round().int().tolist(),
            "labels": labels[g * n : (g + 1) * n].tolist(),
            "seen": [],
        }
        for g in range(PICTURED)
    ]
    rows = []
    for series in chosen:
        with one_thread():
            model, slots = trained(Run(series, n, seed), data, progress)
        with torch.inference_mode():
            mixtures = model.multiplexer(images.view(PICTURED, n, -1))
            answers = model(images).argmax(-1).view(PICTURED, n)
        for group, mixture, answer in zip(groups, mixtures, answers, strict=True):
            seen = {"mixture": mixture.mul(100).round().int().tolist(), "answers": answer.tolist()}
            group["seen"].append({"series": series.name, **seen})
        value, spread = round(100 * fmean(slots), 3), round(100 * pstdev(slots), 3)
        point = {"series": series.name, "n": n, "metric": ACCURACY}
        rows.append({**point, "value": value, "spread": spread, "seeds": 1, "paper": None})
    about = {"version": VERSION, "data": data.about()}
    return make_record("picture", recipe=settings_of(chosen), **about, rows=rows, results=groups)


def variance_shares(images: Tensor, *, published: bool) -> Tensor:
    """(i d) -> (d): the share of variance in the first 1, 2, ... principal components.

    C = (X - m)^T (X - m),   share = sum of its largest eigenvalues / sum of all

    Paper: appendix on the MNIST models: 86.54% in 50 components, and so 400 / 50 = 8 images should fit into the place
    of one. The published code takes for m the mean of each image (i 1); principal components are about the mean of each
    pixel (1 d).
    """
    x = images.double()
    x = x - x.mean(1 if published else 0, keepdim=True)
    values = torch.linalg.eigvalsh(x.T @ x).flip(0)
    shares: Tensor = values.cumsum(0) / values.sum()
    return shares


def pca_record(data: Images) -> Record:
    pixels = data.train_images.shape[1]
    results = {
        name: variance_shares(data.train_images, published=name == "as_published").tolist()
        for name in ("as_published", "centred")
    }
    metric = f"variance in the top {COMPONENTS} of {pixels} components, %"
    rows = [
        {"series": name, "n": pixels // COMPONENTS, "metric": metric, "value": 100 * shares[COMPONENTS - 1]}
        | {"spread": 0.0, "seeds": 1}
        for name, shares in results.items()
    ]
    return make_record("pca", recipe=None, data=data.about(), rows=rows, results=results)


def timed_series() -> dict[str, Series]:
    """What is timed, by the name of its experiment and its own name there."""
    found = {(name, s.name): s for name in TIMED for s in get_experiment(name).series}
    return {f"{name}: {series}": found[name, series] for name, timed in TIMED.items() for series in timed}


def speed_record(data: Images, *, rounds: int = 5, count: int = 6400, seconds: float = 0.2) -> Record:
    """Images per second, and ratios to the plain network of the same backbone, round by round.

    Every round times every network on the same images, each with its best number of groups per pass, and the plain
    network before and after each. Weights are random: they do not change the time. `identity` at N = 1, the plain
    network, is timed as its bare layers, without our parts.
    """
    results: list[Record] = []
    with one_thread():
        for backbone, plain in PLAIN.items():
            series = {name: s for name, s in timed_series().items() if s.network.backbone == backbone}
            points = [(name, n) for name, s in series.items() for n in s.sizes if (name, n) != (plain, 1)]
            bare = series[plain].network.build_plain().eval()
            models = [bare, *(series[name].network.build(n).eval() for name, n in points)]
            contenders = [
                Contender(f"{name} {n}", _answering(model, data.test_images), n, tokens=1.0)
                for (name, n), model in zip([(plain, 1), *points], models, strict=True)
            ]
            found = compare_speed(contenders, rounds=rounds, seconds=seconds, samples=count, positions=GROUPS)
            for (name, n), speed in zip([(plain, 1), *points], found, strict=True):
                results.append({"series": name, "n": n, "rates": speed.rates, "ratios": speed.ratios})
    settings = {"rounds": rounds, "images": count, "threads": 1}
    return make_record("image speed", recipe=None, settings=settings, data=data.about(), results=results)


def _answering(model: torch.nn.Module, images: Tensor) -> Work:
    """Answers the first images (over and over, if there are too few), with a given number of groups per pass."""

    @torch.inference_mode()
    def work(instances: int, positions: int) -> None:
        some = images[torch.arange(instances) % len(images)]
        for part in torch.split(some, positions * slots_of(model)):
            model(part)

    return work
