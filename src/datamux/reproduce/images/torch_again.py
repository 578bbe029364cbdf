"""CNN runs that C++ code (since removed) had trained, run again in torch: do the committed records stay valid?

Rounding is enough to lead two trainings with one seed apart, so a run is judged by the interval into which a further
run of the same network falls 19 times in 20 (Student's t): mean ± 4.303 sqrt(1 + 1/3) spread of three committed seeds.
"""

from pathlib import Path
from statistics import fmean
from typing import Any

from datamux.evaluate.records import make_record
from datamux.reproduce.catalogue import choose
from datamux.reproduce.experiment import Series
from datamux.reproduce.images.runs import Run, finished, perform_all
from datamux.reproduce.records import committed
from datamux.reproduce.spread import spread_of
from datamux.vision.digits import Images

# Series and N: how many seeds. Cheap runs that used each part of the C++ code: the network, tiles, nonlinear maps.
POINTS = {("identity", 1): 3, ("ortho", 2): 3, ("rotation", 2): 3, ("cnn learned_mosaic", 2): 3}
POINTS |= {("mosaic", 4): 1, ("low_rank", 8): 1, ("cnn tiles", 4): 1, ("nonlinear_as_published", 2): 1}


def native_runs(name: str, n: int) -> tuple[Series, list[dict[str, Any]]]:
    """A CNN series, and its committed runs at one N that C++ code trained, one per seed."""
    for experiment in choose("mnist"):
        for series in experiment.series:
            if (series.name, series.network.backbone, experiment.kind) == (name, "cnn", "images"):
                results = committed(experiment.id)["results"]
                return series, [r for r in results if (r["series"], r["n"]) == (name, n) and r.get("native")]
    raise ValueError(f"no committed record has a CNN series {name!r}")


def torch_again_record(data: Images, out: Path, points: dict[tuple[str, int], int] = POINTS) -> dict[str, Any]:
    """The record of the comparison. Runs that are finished in `out` are not run a second time."""
    rows, runs = [], []
    for (name, n), seeds in points.items():
        series, before = native_runs(name, n)
        accuracies = [run["accuracy"] for run in before]
        spread = spread_of(accuracies)
        reach = 4.303 * (1 + 1 / 3) ** 0.5 * spread
        interval = [fmean(accuracies) - reach, fmean(accuracies) + reach]
        for run in before[:seeds]:
            row = {"series": name, "n": n, "seed": run["seed"], "committed": run["accuracy"]}
            rows.append(row | {"spread_of_seeds": spread, "interval": interval})
            runs.append(Run(series, n, run["seed"]))
    perform_all(runs, out, data, jobs=1, progress=lambda cost: None)
    results = [
        row | {"now": (finished(r, out, data) or {})["result"]["accuracy"]} for row, r in zip(rows, runs, strict=True)
    ]
    return make_record("torch again", recipe=None, data=data.about(), results=results)
