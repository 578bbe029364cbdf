"""Worst case: someone may choose the neighbours. Can they be chosen so that a right answer turns wrong?

The search is a black box: it sees only probabilities. It starts with random neighbours from a pool, keeps the group in
which the answer is least sure, and exchanges some of its neighbours in the next round.
"""

from statistics import median
from typing import Any

import torch
from torch import Tensor

from datamux.audit.subject import Subject, random_groups

WIDTH = 8  # groups that are tried per round and text
EXCHANGED = 0.3  # the share of neighbours that a later round exchanges


def worst_case(subject: Subject, k: int, *, texts: int = 40, tries: int = 160, seed: int = 0) -> dict[str, Any]:
    """Search for neighbours that change a right answer; `tries` is the number of groups asked about, per text."""
    generator = torch.Generator().manual_seed(seed)
    rows = len(subject.rows)
    chosen = _answered_right(subject, k, texts, generator)
    slots = torch.arange(len(chosen)) % k
    best, margins = random_groups(rows, k, chosen, slots, generator), torch.full((len(chosen),), 2.0)
    needed: list[int | None] = [None] * len(chosen)
    for start in range(0, tries, WIDTH):
        open_ = [i for i, done in enumerate(needed) if done is None]
        if not open_:
            break
        which = torch.tensor(open_).repeat_interleave(WIDTH)
        groups = random_groups(rows, k, chosen[which], slots[which], generator)
        if start:
            stays = torch.rand(groups.shape, generator=generator) >= EXCHANGED
            groups = _without_repeats(torch.where(stays, best[which], groups), groups)
        sure = torch.tensor(
            [
                _margin(p, subject.truth[r])
                for p, r in zip(subject.ask(groups, slots[which]), chosen[which].tolist(), strict=True)
            ]
        )
        for place, i in enumerate(open_):
            some = slice(place * WIDTH, (place + 1) * WIDTH)
            wrong = (sure[some] < 0).nonzero()
            if len(wrong):
                needed[i] = start + int(wrong[0]) + 1
            least = int(sure[some].argmin())
            if sure[some][least] < margins[i]:
                best[i], margins[i] = groups[some][least], sure[some][least]
    found = [n for n in needed if n is not None]
    return {
        "part": "worst case",
        "group_size": k,
        "success": len(found) / max(1, len(chosen)),
        "median_tries": median(found) if found else None,
        "tries": tries,
        "texts": len(chosen),
        "curve": [[t, sum(n <= t for n in found) / max(1, len(chosen))] for t in _steps(tries)],
    }


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


def _without_repeats(mixed: Tensor, fresh: Tensor) -> Tensor:
    """Groups in which no row sits twice; where exchanging made one do so, the fresh group is used."""
    ordered = mixed.sort(1).values
    repeated = (ordered[:, 1:] == ordered[:, :-1]).any(1)
    return torch.where(repeated[:, None], fresh, mixed)


def _steps(tries: int) -> list[int]:
    return sorted({1, *(2**i for i in range(1, 12) if 2**i < tries), tries})
