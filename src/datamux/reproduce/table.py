"""Records of figures, and the same as rows: series, n, metric, value, spread, seeds, paper. Values are percent.

The record of a trained figure holds every run with the accuracy of each slot. A row is a series at one n: the mean over
its seeds, and the spread over indices (the standard deviation over slots, mean over seeds).
"""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from datamux.evaluate.records import make_record, read_record
from datamux.reproduce.figures import Figure, get_figure
from datamux.reproduce.paper import stated
from datamux.reproduce.runs import Run
from datamux.reproduce.series import Series
from datamux.tasks.images import Images

COLUMNS = ("series", "n", "metric", "value", "spread", "seeds", "paper")
ACCURACY = "accuracy, %"


def training_record(
    figure: Figure, series: Sequence[Series], runs: Sequence[Run], results: Sequence[dict[str, Any]], data: Images
) -> dict[str, Any]:
    """A record of the runs of a figure, `results` in the order of `runs`."""
    settings = {s.name: s.as_dict() | {"sizes": s.sizes} for s in series}
    return make_record(
        "reproduce",
        recipe=settings,
        figure=figure.name,
        data=data.about(),
        results=[{"series": run.series.name, **result} for run, result in zip(runs, results, strict=True)],
    )


def rows_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a record."""
    figure = record["figure"]
    if record["kind"] != "reproduce":
        return [{key: row.get(key) for key in COLUMNS} for row in record["rows"]]
    points: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for result in record["results"]:
        points.setdefault((result["series"], result["n"]), []).append(result)
    return [
        {
            "series": series,
            "n": n,
            "metric": ACCURACY,
            "value": round(100 * fmean(r["accuracy"] for r in results), 3),
            "spread": round(100 * fmean(pstdev(r["slots"]) for r in results), 3),
            "seeds": len(results),
            "paper": stated(figure, series, n),
        }
        for (series, n), results in points.items()
    ]


def committed(name: str) -> dict[str, Any]:
    """The record of a figure that comes with the package."""
    get_figure(name)
    with resources.as_file(resources.files("datamux.reproduce") / "results" / f"{name}.json") as file:
        if not file.exists():
            raise FileNotFoundError(f"{name} has no committed record yet; run it: datamux reproduce {name}")
        return read_record(Path(file))


def has_record(name: str) -> bool:
    return (resources.files("datamux.reproduce") / "results" / f"{name}.json").is_file()
