"""From logits to answers that a person can read: labels with scores, or the spans that a tagger found."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

Answer = Any  # a dict with "label" and "score"; a list of such dicts; or a list of spans
LABEL: dict[str, Any] = {"label": "", "score": 0.0}  # an example, which says what types the values have
SPAN: dict[str, Any] = {"entity_group": "", "score": 0.0, "word": "", "start": 0, "end": 0}


class Word(NamedTuple):
    """Where a word starts and ends in its text, and the number of its first token."""

    start: int
    end: int
    token: int


def label_answers(logits: Tensor, names: Sequence[str], problem: str, top_k: int = 1) -> list[Answer]:
    """(i c) -> the best label of each row, or its `top_k` best; if rows have several labels, all above 0.5."""
    if problem == "regression":
        rows = [
            [{"label": name, "score": value} for name, value in zip(names, row, strict=True)] for row in logits.tolist()
        ]
        return [row[0] if len(row) == 1 else row for row in rows]
    if problem == "multi_label_classification":
        each = logits.float().sigmoid().tolist()
        found = [[{"label": n, "score": s} for n, s in zip(names, row, strict=True) if s > 0.5] for row in each]
        return [sorted(row, key=lambda answer: -answer["score"]) for row in found]
    shares = logits.float().softmax(-1)
    if top_k == 1:
        score, label = shares.max(-1)
        return [{"label": names[c], "score": s} for c, s in zip(label.tolist(), score.tolist(), strict=True)]
    best = shares.topk(min(top_k, logits.shape[-1]), dim=-1)
    pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return [[{"label": names[c], "score": s} for s, c in zip(*pair, strict=True)] for pair in pairs]


def span_answers(
    texts: Sequence[str], words: Sequence[Sequence[Word]], logits: Tensor, names: Sequence[str]
) -> list[list[dict[str, Any]]]:
    """(i l c) -> the spans of each text: words in a row tagged B-x, I-x, ... A word has the tag of its first token."""
    best = logits.float().softmax(-1).max(-1)
    tags, scores = best.indices.tolist(), best.values.tolist()
    kinds = [_kind(name) for name in names]
    return [_spans(*row, kinds) for row in zip(texts, words, tags, scores, strict=True)]


def _spans(
    text: str, words: Sequence[Word], tags: list[int], scores: list[float], kinds: Sequence[tuple[str, bool] | None]
) -> list[dict[str, Any]]:
    spans: list[tuple[str, int, int, list[float]]] = []
    open_kind = ""
    for start, end, token in words:
        found = kinds[tags[token]]
        if found is None:
            open_kind = ""
            continue
        kind, begins = found
        if kind == open_kind and not begins:
            spans[-1] = (kind, spans[-1][1], end, [*spans[-1][3], scores[token]])
        else:
            spans.append((kind, start, end, [scores[token]]))
            open_kind = kind
    return [
        {
            "entity_group": kind,
            "score": sum(seen) / len(seen),
            "word": text[start:end],
            "start": start,
            "end": end,
        }
        for kind, start, end, seen in spans
    ]


def _kind(name: str) -> tuple[str, bool] | None:
    """What a tag stands for, and whether it begins a span; None for O."""
    if name == "O":
        return None
    return (name[2:], name[0] == "B") if name[:2] in ("B-", "I-") else (name, False)
