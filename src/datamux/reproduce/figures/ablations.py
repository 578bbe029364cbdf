"""The ablations: short runs that differ from the first in one thing each, the best first."""

from datamux.reproduce.figures.quality import shown_name
from datamux.reproduce.records import Groups
from datamux.reproduce.tables import minutes, table

ABOUT = {
    "warmup-ablation": (
        "What makes the warm-up work",
        "Retrieval accuracy on held-out Wikipedia after {steps} steps at capacity 10, one seed. Each row differs from "
        "`gate` in the one thing that it is named after.",
    ),
    "task-ablation": (
        "What makes the task stage work",
        "SST-2 accuracy (validation and test) after {steps} steps at capacity 20, one seed. Each row differs from "
        "`as-is` in the one thing that it is named after.",
    ),
}


def ablation_section(figure: str, groups: Groups) -> list[str]:
    title, about = ABOUT[figure]
    records = [record for (record,) in groups.values()]
    (steps,) = {record["training"][-1]["steps"] for record in records}
    sizes = [f"k = {row['group_size']}" for row in records[0]["results"]]
    records.sort(key=lambda record: -record["results"][-1]["score"])
    rows = [
        [shown_name(r), f"{minutes(r):.1f}", *(f"{100 * row['score']:.1f}" for row in r["results"])] for r in records
    ]
    return [f"## {title}", "", about.format(steps=steps), "", *table(["changed", "minutes", *sizes], rows)]
