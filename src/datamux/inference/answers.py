"""From logits to what a person reads: labels with scores, or the spans that a tagger found."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Answer = Any  # {"label", "score"}; a list of them; or a list of spans


@dataclass(frozen=True)
class Word:
    """A word of a text: where it stands in it, and which token is its first."""

    start: int
    end: int
    token: int


def label_answers(logits: Tensor, names: Sequence[str], problem: str, top_k: int = 1) -> list[Answer]:
    """(i c) -> for each row its best label, the `top_k` best, or (several labels at once) all above one half."""
    if problem == "regression":
        rows = [
            [{"label": name, "score": value} for name, value in zip(names, row, strict=True)] for row in logits.tolist()
        ]
        return [row[0] if len(row) == 1 else row for row in rows]
    if problem == "multi_label_classification":
        shares = logits.float().sigmoid().tolist()
        found = [[{"label": n, "score": s} for n, s in zip(names, row, strict=True) if s > 0.5] for row in shares]
        return [sorted(row, key=lambda answer: -answer["score"]) for row in found]
    best = logits.float().softmax(-1).topk(min(top_k, logits.shape[-1]), dim=-1)
    pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    answers = [[{"label": names[c], "score": s} for s, c in zip(*pair, strict=True)] for pair in pairs]
    return [row[0] for row in answers] if top_k == 1 else answers


def span_answer(text: str, words: Sequence[Word], logits: Tensor, names: Sequence[str]) -> list[dict[str, Any]]:
    """(l c) of one text -> its spans: words tagged B-x, I-x ... in a row. The first piece of a word speaks for it."""
    if not words:
        return []
    first = torch.tensor([word.token for word in words])
    best = logits[first].float().softmax(-1).max(-1)
    spans: list[dict[str, Any]] = []
    open_kind = ""
    for word, score, tag in zip(words, best.values.tolist(), best.indices.tolist(), strict=True):
        prefix, _, kind = names[tag].partition("-") if names[tag][:2] in ("B-", "I-") else ("", "", names[tag])
        if names[tag] == "O":
            open_kind = ""
        elif kind == open_kind and prefix != "B":
            spans[-1]["end"] = word.end
            spans[-1]["scores"].append(score)
        else:
            spans.append({"entity_group": kind, "scores": [score], "start": word.start, "end": word.end})
            open_kind = kind
    return [
        {
            "entity_group": span["entity_group"],
            "score": sum(span["scores"]) / len(span["scores"]),
            "word": text[span["start"] : span["end"]],
            "start": span["start"],
            "end": span["end"],
        }
        for span in spans
    ]
