"""`datamux explain`: how the answer for one text varies over its neighbours and slots."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from datamux.audit.subject import BATCH, random_groups
from datamux.evaluate.evaluate_model import default_sizes
from datamux.inference.predictor import Predictor

BLOCKS = "·▁▂▃▄▅▆▇█"
BINS = 20  # of the small histogram


@dataclass(frozen=True)
class Variation:
    """The answers for one text at one group size."""

    group_size: int
    usual: str  # the answer that most groups give
    share: float  # of the groups that give it
    scores: list[float]  # the usual answer's score in every group
    slots: list[float]  # per slot, the share of groups that give the usual answer
    others: dict[str, int]  # further answers, and how many groups gave them


def explain_text(
    predictor: Predictor, text: Any, neighbours: Sequence[Any], *, group_sizes: Sequence[int] = (), groups: int = 200
) -> list[Variation]:
    """Ask about `text` in `groups` random groups at each size, in every slot in turn."""
    if predictor.problem == "regression":
        raise ValueError(
            "this model answers with a number, which moves a little in every group; explain counts how often an answer "
            "stays the same, so it is for models that answer with labels or names: see datamux evaluate for this one"
        )
    window = predictor.texts.window([text, *neighbours])
    sizes = list(group_sizes) or default_sizes(predictor.num_instances)
    if max(sizes) > len(neighbours) + 1:
        raise ValueError(f"{len(neighbours)} neighbours are too few for {max(sizes)} texts per pass; give more")
    found = []
    for k in sizes:
        generator = torch.Generator().manual_seed(0)
        count = groups if k > 1 else 1
        slots = torch.arange(count) % k
        drawn = random_groups(len(window.rows), k, torch.zeros(count, dtype=torch.long), slots, generator)
        answers = []
        size = max(1, BATCH // k)
        for some, places in zip(torch.split(drawn, size), torch.split(slots, size), strict=True):
            logits = predictor.runtime.logits(window.rows.batch(some.flatten()), k)
            own = torch.unflatten(logits, 0, (len(some), k))[torch.arange(len(some)), places]
            answers += predictor.answers(window, [0] * len(some), own)
        found.append(_variation(k, [_said(answer) for answer in answers], slots.tolist()))
    return found


def _said(answer: Any) -> tuple[str, float]:
    """An answer as words, and its score: a label, or the spans that a tagger found."""
    if isinstance(answer, dict):
        return answer["label"], answer["score"]
    spans = [part for part in answer if isinstance(part, dict)]
    words = ", ".join(f"{span.get('word', '')} {span.get('entity_group', span.get('label'))}".strip() for span in spans)
    return words or "nothing", min((span["score"] for span in spans), default=1.0)


def _variation(k: int, answers: list[tuple[str, float]], slots: list[int]) -> Variation:
    counts = Counter(said for said, _ in answers)
    usual, many = counts.most_common(1)[0]
    agreeing = [[said == usual for (said, _), seat in zip(answers, slots, strict=True) if seat == s] for s in range(k)]
    return Variation(
        k,
        usual,
        many / len(answers),
        [score for said, score in answers if said == usual],
        [fmean(some) for some in agreeing if some],
        dict(counts.most_common()[1:]),
    )


def histogram(scores: Sequence[float]) -> str:
    """A line of small bars: how often the usual answer had which score, from 0 on the left to 1 on the right."""
    counts = torch.histc(torch.tensor(list(scores)), BINS, 0.0, 1.0).int().tolist()
    top = max(counts)
    return "".join(BLOCKS[-(-count * (len(BLOCKS) - 1) // top)] if top else BLOCKS[0] for count in counts)
