"""The record of a trained figure: every run with the accuracy of each slot, and who made it; the same as rows.

A row is a series at one n: the mean over its seeds in percent, and the spread over indices (the standard deviation over
slots, mean over seeds).
"""

from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any

from datamux.evaluate.records import make_record
from datamux.reproduce.figures import Figure
from datamux.reproduce.paper import stated_value
from datamux.reproduce.runs import VERSION, Run
from datamux.reproduce.series import Series
from datamux.tasks.images import Images

ACCURACY = "accuracy, %"


def training_record(
    figure: Figure, series: Sequence[Series], runs: Sequence[Run], kept: Sequence[dict[str, Any]], data: Images
) -> dict[str, Any]:
    """A record of the runs of a figure; `kept` is what their files hold, in the same order."""
    return make_record(
        "reproduce",
        recipe=settings_of(series),
        figure=figure.name,
        version=VERSION,
        data=data.about(),
        made_by=_makers(kept),
        results=[{"series": run.series.name, **file["result"]} for run, file in zip(runs, kept, strict=True)],
    )


def settings_of(series: Sequence[Series]) -> dict[str, Any]:
    """All settings of some series, by their names."""
    return {s.name: s.as_dict() | {"sizes": list(s.sizes)} for s in series}


def _makers(kept: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Which code on which machine made how many of the runs, and when."""
    makers: list[dict[str, Any]] = []
    for file in kept:
        made_by = dict(file["made_by"])
        date = made_by.pop("date")
        same = next((maker for maker in makers if made_by.items() <= maker.items()), None)
        if same is None:
            makers.append({**made_by, "runs": 1, "first": date, "last": date})
        else:
            same.update(runs=same["runs"] + 1, first=min(same["first"], date), last=max(same["last"], date))
    return makers


def accuracy_rows(record: dict[str, Any]) -> list[dict[str, Any]]:
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
            "paper": stated_value(record, series, n),
        }
        for (series, n), results in points.items()
    ]
