"""Which models live on their mixtures: the score as it is, and with each row's neighbour's part of the mixture."""

from datamux.evaluate.records import read_record
from pages.common import RESULTS, TITLES

HEADING = [
    "## Is the mixture read?",
    "",
    "The score at one group size as it is, and when each row gets its neighbour's part of the mixture",
    "(`datamux evaluate --swapped`, `experiments/swapped.sh`; one seed, one grouping). A model that reads the mixture",
    "falls to what guessing gives. With a bypass, what stays is read below the mixture.",
    "",
    "| task | model | k | score | swapped |",
    "|---|---|---|---|---|",
]


def swapped_section() -> list[str]:
    lines = []
    for file in sorted((RESULTS / "swapped").glob("*.json")):
        task, _, name = file.stem.partition("-")
        (swapped,) = read_record(file)["results"]
        k = swapped["group_size"]
        own = next(row for row in read_record(RESULTS / task / f"{name}.json")["results"] if row["group_size"] == k)
        cells = [
            TITLES[task],
            name.removesuffix("-seed0"),
            str(k),
            *(f"{100 * r['score']:.1f}" for r in (own, swapped)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*HEADING, *lines, ""] if lines else []
