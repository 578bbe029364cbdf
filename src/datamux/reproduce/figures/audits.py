"""The audits of the models in the package: their headlines, advice and numbers."""

from typing import Any

from datamux.audit.advice import advice_of, headline_of
from datamux.reproduce.records import Groups
from datamux.reproduce.tables import paragraphs, table


def audit_section(groups: Groups) -> list[str]:
    """The headline and the advice of every audit, and its numbers."""
    lines = paragraphs("## Audits of the models in the package")
    for name, (record, *_) in groups.items():
        lines += paragraphs(f"### {name}", headline_of(record["results"]))
        lines += [*(f"- {sentence}" for sentence in advice_of(record["results"])), ""]
        steady = [row for row in record["results"] if row["part"] == "consistency"]
        slots = {row["group_size"]: row for row in record["results"] if row["part"] == "position"}
        cells = []
        for row in steady:
            at = slots[row["group_size"]]
            moved = [f"{row['flips']:.2%}", f"{row['touched']:.1%}", f"{row['movement']:.3f}"]
            cells.append([row["group_size"], *moved, *(f"{at[key]:.1%}" for key in ("accuracy", "worst", "best"))])
        titles = ["texts per pass", "answers that change", "texts with any change", "movement of the probability"]
        lines += [*table([*titles, "accuracy", "worst slot", "best slot"], cells), ""]
        leaks = [row for row in record["results"] if row["part"] == "leakage"]
        sources = ("state", "logits", "own_state")
        cells = [
            [r["group_size"], f"{r['chance']:.1%}", *(f"{r[f'label_from_{s}']:.1%}" for s in sources)]
            + [f"{r[f'words_from_{s}'] or 0.5:.2f}" for s in sources]
            for r in leaks
        ]
        titles = ["texts per pass", "guessing", *(f"label from {s.replace('_', ' ')}" for s in sources)]
        lines += [*table([*titles, *(f"words from {s.replace('_', ' ')}" for s in sources)], cells), ""]
        attacks = [row for row in record["results"] if row["part"] == "worst case"]
        cells = [
            [r["group_size"], f"{r['success']:.0%}", _chance(r), r["texts"], r["median_tries"] or "", r["tries"]]
            for r in attacks
        ]
        titles = ["texts per pass", "right answers changed", "by random neighbours", "texts", "median tries", "at most"]
        lines += [*table(titles, cells), ""]
        (control,) = (row for row in record["results"] if row["part"] == "mixture read")
        lines += paragraphs(
            f"Is the mixture read? It scores {control['score']:.1%}, and {control['from_neighbour']:.1%} from the "
            f"neighbour's part of the mixture; guessing gives {control['guessing']:.1%}."
        )
    return lines[:-1]


def _chance(attack: dict[str, Any]) -> str:
    """What random neighbours changed; older records lack it."""
    return f"{attack['by_chance']:.0%}" if "by_chance" in attack else ""
