"""Worst case: someone may choose the neighbours. Can they be chosen so that a right answer turns wrong?

The search is a black box: it sees only probabilities. It starts with random neighbours from a pool, keeps the group in
which the answer is least sure, and exchanges some of its neighbours in the next round. A search that exchanges all of
them is pure chance, and shows what choosing adds.
"""

from statistics import median
from typing import Any

import torch
from torch import Tensor

from datamux.audit.subject import Subject, random_groups

WIDTH = 8  # groups that are tried per round and text
EXCHANGED = 0.3  # the share of neighbours that a later round exchanges


def worst_case(subject: Subject, k: int, *, texts: int = 40, tries: int = 160, seed: int = 0) -> dict[str, Any]:
    """Search for neighbours that change a right answer; `tries` is the number of groups asked about, per text.

    Beside the search stands pure chance: as many groups of random neighbours. A text counts as changed as soon as one
    of its answers is wrong; a tagger gives one per word.
    """
    generator = torch.Generator().manual_seed(seed)
    chosen = _answered_right(subject, k, texts, generator)
    slots = torch.arange(len(chosen)) % k
    needed = _search(subject, chosen, slots, k, tries, EXCHANGED, generator)
    by_chance = _search(subject, chosen, slots, k, tries, 1.0, generator)
    found = [n for n in needed if n is not None]
    return {
        "part": "worst case",
        "group_size": k,
        "success": len(found) / max(1, len(chosen)),
        "by_chance": sum(n is not None for n in by_chance) / max(1, len(chosen)),
        "changed": len(found),
        "words": subject.tags,
        "median_tries": median(found) if found else None,
        "tries": tries,
        "texts": len(chosen),
        "curve": _curve(needed, tries),
        "chance_curve": _curve(by_chance, tries),
    }


def _search(
    subject: Subject, chosen: Tensor, slots: Tensor, k: int, tries: int, exchanged: float, generator: torch.Generator
) -> list[int | None]:
    """How many groups each chosen row needed until it was wrong; None if `tries` were not enough.

    Every round exchanges this share of the neighbours; all of them is random search.
    """
    rows = len(subject.rows)
    best, margins = random_groups(rows, k, chosen, slots, generator), torch.full((len(chosen),), 2.0)
    needed: list[int | None] = [None] * len(chosen)
    for start in range(0, tries, WIDTH):
        open_ = [i for i, done in enumerate(needed) if done is None]
        if not open_:
            break
        which = torch.tensor(open_).repeat_interleave(WIDTH)
        stays = torch.rand(len(which), k, generator=generator) >= (exchanged if start else 1.0)
        stays[torch.arange(len(which)), slots[which]] = True
        groups = exchange(best[which], stays, rows, generator)
        answers = zip(subject.ask(groups, slots[which]), chosen[which].tolist(), strict=True)
        sure = torch.tensor([_margin(p, subject.truth[row]) for p, row in answers])
        for place, i in enumerate(open_):
            some = slice(place * WIDTH, (place + 1) * WIDTH)
            wrong = (sure[some] < 0).nonzero()
            if len(wrong):
                needed[i] = start + int(wrong[0]) + 1
            least = int(sure[some].argmin())
            if sure[some][least] < margins[i]:
                best[i], margins[i] = groups[some][least], sure[some][least]
    return needed


def exchange(groups: Tensor, stays: Tensor, rows: int, generator: torch.Generator) -> Tensor:
    """Groups (g k) whose other places get rows at random, none of which sits in the group already."""
    free = torch.rand(len(groups), rows, generator=generator)
    free.scatter_(1, groups, free.gather(1, groups).masked_fill(stays, -1.0))
    drawn = free.topk(groups.shape[1], dim=1).indices
    turn = (~stays).cumsum(1).sub(1).clamp(min=0)  # the first place that is exchanged gets the first row drawn
    return torch.where(stays, groups, drawn.gather(1, turn))


def _curve(needed: list[int | None], tries: int) -> list[list[float]]:
    """The share of texts that were changed within some numbers of tries."""
    return [[t, sum(n is not None and n <= t for n in needed) / max(1, len(needed))] for t in _steps(tries)]


def _answered_right(subject: Subject, k: int, texts: int, generator: torch.Generator) -> Tensor:
    """Rows that are answered right, in every part, in a random group."""
    some = torch.randperm(len(subject.rows), generator=generator)[: 4 * texts]
    some = some[[len(subject.truth[row]) > 0 for row in some.tolist()]]
    slots = torch.arange(len(some)) % k
    found = subject.ask(random_groups(len(subject.rows), k, some, slots, generator), slots)
    right = [_margin(p, subject.truth[row]) > 0 for p, row in zip(found, some.tolist(), strict=True)]
    return some[right][:texts]


def _margin(p: Tensor, truth: Tensor) -> float:
    """How sure the least sure part (r c) of a right answer is; negative if a part is wrong."""
    right = p.gather(-1, truth[:, None]).squeeze(-1)
    others = p.scatter(-1, truth[:, None], -1.0).amax(-1)
    return float((right - others).min())


def _steps(tries: int) -> list[int]:
    return sorted({1, *(2**i for i in range(1, 12) if 2**i < tries), tries})
