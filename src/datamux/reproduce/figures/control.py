"""Which models read their mixture: the score as it is, and with each row's neighbour's part of the mixture."""

from datamux.reproduce.catalogue import get_experiment
from datamux.reproduce.records import Groups, committed
from datamux.reproduce.tables import TITLES, paragraphs, table

ABOUT = paragraphs(
    "## Is the mixture read?",
    "The score at one group size as it is, and when each row gets its neighbour's part of the mixture "
    "(`datamux evaluate --answer-from-neighbour`; one seed, one grouping). The score of a model that reads the mixture "
    "falls to what guessing gives. Models with a bypass read around the mixture: what is left of their score comes "
    "from below it.",
)


def control_section(groups: Groups) -> list[str]:
    rows = []
    for (record,) in groups.values():
        (control,) = record["results"]
        (model,) = get_experiment(record["experiment"]).needs
        source = get_experiment(model)
        k = control["group_size"]
        as_it_is = next(row for row in committed(model)["results"] if row["group_size"] == k)
        scores = [f"{100 * row['score']:.1f}" for row in (as_it_is, control)]
        rows.append([TITLES[source.figure], source.name, k, *scores])
    return [*ABOUT, *table(["task", "model", "k", "score", "with the neighbour's part"], rows)]
