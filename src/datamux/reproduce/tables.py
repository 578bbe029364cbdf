"""What the tables share: markdown, the names of tasks, training time, and whether an aim was met."""

from collections.abc import Iterable, Sequence

from datamux.reproduce.records import Record

TITLES = {
    "sst2": "SST-2, validation and test together",
    "conll2003": "CoNLL-2003, test",
    # The committed records of these three are older than the larger sets that the mini scale uses.
    "qqp": "QQP, the older subset of 20,000 rows (62,099 by now)",
    "qnli": "QNLI, the older subset of 5,463 rows (7,463 by now)",
    "mnli": "MNLI, the older subset of 9,815 rows (64,976 by now)",
    "banking77": "banking77, test",
    "your-file": "A file of your own: banking77 (77 labels) and WNUT-17 (tags), test",
    "retrieval": "Retrieval on held-out Wikipedia",
    "mini-retrieval": "Mini scale: retrieval on held-out Wikipedia",
    "mini-sst2": "Mini scale: SST-2, validation and test together",
    "mini-conll2003": "Mini scale: CoNLL-2003, test",
    "mini-qqp": "Mini scale: QQP, validation",
    "mini-mnli": "Mini scale: MNLI, validation (matched)",
    "mini-qnli": "Mini scale: QNLI, validation",
}


ABOUT_FLIPS = (
    "*2.1% flip* behind a score: so many of the answers (for tags: of the words) change when only the neighbours do. "
    "It stands where it was measured."
)


def paragraphs(*texts: str) -> list[str]:
    """Lines of markdown with an empty one after each text."""
    return [line for text in texts for line in (text, "")]


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table in markdown."""
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (titles, *rows)]
    return [lines[0].replace("|  |", "| |"), "|---" * len(titles) + "|", *lines[1:]]


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def flip_cell(share: float | None) -> str:
    """What stands behind a score whose flips were measured: the share of answers that change with the neighbours."""
    return "" if share is None else f", {percent(share)} flip"


def minutes(record: Record) -> float:
    """Training time, all stages together."""
    return float(sum(stage["seconds"] for stage in record["training"]) / 60)


def missed(by: float, digits: int, unit: str = "") -> str:
    """Whether an aim was met, given by how much the measurement falls short of it."""
    return "met" if by <= 0 else f"missed by {by:.{digits}f}{unit}"
