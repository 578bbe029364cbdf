"""Which rows are held out of training: a random share, the same of every label.

No text is in both parts. The rows are shuffled, because a file may be sorted by label.
"""

import random
from collections import defaultdict

from datamux.tasks.examples import Examples
from datamux.tasks.labels import Labels


def shuffled(rows: Examples, seed: int) -> Examples:
    """The rows in a random order that depends only on the seed."""
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    return rows.only(order)


def hold_out(rows: Examples, share: float, most: int, seed: int, labels: Labels) -> tuple[Examples, Examples]:
    """(the rows that remain, those that are held out), both shuffled. All rows with one text are in the same part.

    The same share of every label is held out, about `most` rows at most, but never a label's only text.
    """
    chance = random.Random(seed)
    one_label = rows.labels if labels.problem == "single_label_classification" else None
    if len(rows) and isinstance(rows.texts[0], list):
        one_label = None
    by_label: dict[str, list[str]] = defaultdict(list)
    for row, text in enumerate(keys := [text_key(rows, row) for row in range(len(rows))]):
        by_label[one_label[row] if one_label else ""].append(text)
    share = min(share, most / max(1, len(rows)))
    held: set[str] = set()
    known: set[str] = set()
    for texts in by_label.values():
        members = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(members)
        chance.shuffle(members)
        held.update(members[: min(max(0, len(members) - 1), int(share * len(members) + chance.random()))])
    if not held and len(known) > 1:  # so few rows that no label had to give one
        held.add(max(by_label.values(), key=lambda texts: len(set(texts)))[0])
    parts = [[row for row, text in enumerate(keys) if (text in held) == wanted] for wanted in (False, True)]
    remaining, others = (shuffled(rows.only(part), seed) for part in parts)
    return remaining, others


def text_keys(rows: Examples) -> set[str]:
    """The different texts of some rows."""
    return {text_key(rows, row) for row in range(len(rows))}


def text_key(rows: Examples, row: int) -> str:
    """What rows with the same text, pair or words have in common. The order of a pair does not matter."""
    text = rows.texts[row]
    words = " ".join(text) if isinstance(text, list) else text
    return words if rows.pairs is None else "\0".join(sorted((words, rows.pairs[row])))
