"""Where records lie, what tasks are called, and how a table gets into a page."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
DOCS = ROOT / "docs"
TITLES = {
    "sst2": "SST-2, validation and test together",
    "conll2003": "CoNLL-2003, test",
    "qqp": "QQP, a subset of 20,000 rows",
    "qnli": "QNLI, a subset of 5,463 rows",
    "mnli": "MNLI, a subset of 9,815 rows",
    "banking77": "banking77, test",
    "own": "Files of one's own, from scratch, as in the quickstart: banking77 (77 labels) and WNUT-17 (tags), test",
    "wikipedia_en": "Retrieval on held-out Wikipedia",
}


def minutes(record: dict) -> float:
    return sum(stage["seconds"] for stage in record["training"]) / 60


def missed(by: float, digits: int, unit: str = "") -> str:
    """Whether an aim was met, given by how much the measurement falls short of it."""
    return "met" if by <= 0 else f"missed by {by:.{digits}f}{unit}"


def fill(text: str, name: str, lines: list[str]) -> str:
    """`text` with `lines` between the marks of `name`, if it has them."""
    before, start, rest = text.partition(f"<!-- results: {name} -->\n")
    if not start:
        return text
    _, end, after = rest.partition("<!-- end of results -->")
    return before + start + "\n".join(lines) + "\n" + end + after
