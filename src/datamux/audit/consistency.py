"""Consistency: a text stays in its slot, and only its neighbours change. How far does its answer move?

flips     the share of pairs of groups in which the text gets different answers: how often an answer changes when only
          the neighbours do
upper     what this share is at most, with 95% certainty, given how few texts were asked about
touched   the share of texts whose answer changes in at least one of the groups
movement  the standard deviation of the probability of the usual answer, averaged over texts
"""

from typing import Any

import torch
from torch import Tensor

from datamux.audit.subject import Subject, random_groups


def consistency(subject: Subject, k: int, *, texts: int = 200, draws: int = 10, seed: int = 0) -> dict[str, Any]:
    """Ask about each of `texts` rows in `draws` groups of k."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(subject.rows), generator=generator)[:texts]
    chosen = chosen[[len(subject.truth[row]) > 0 for row in chosen.tolist()]]
    slots = torch.arange(len(chosen)) % k
    found = [subject.ask(random_groups(len(subject.rows), k, chosen, slots, generator), slots) for _ in range(draws)]
    texts_answers = [torch.stack(answers) for answers in zip(*found, strict=True)]  # draws r c, one per text
    measured = [_moves(answers) for answers in texts_answers]
    flips, touched, movement, widest = (torch.tensor(values) for values in zip(*measured, strict=True))
    return {
        "part": "consistency",
        "group_size": k,
        "flips": float(flips.mean()),
        "upper": upper_bound(flips, draws, generator),
        "touched": float((touched > 0).float().mean()),
        "movement": float(movement.mean()),
        "widest": float(widest.max()),
        "texts": len(chosen),
        "draws": draws,
        "histogram": torch.histc(movement, 10, 0.0, 0.5).int().tolist(),
    }


def upper_bound(flips: Tensor, draws: int, generator: torch.Generator, samples: int = 2000) -> float:
    """The 95% upper bound of the mean over texts (i), which are drawn anew with replacement.

    Texts that never flip do not show that none would: even then, some share of all texts, 3 / i or so, may have one
    draw that differs from the others.
    """
    drawn = torch.randint(len(flips), (samples, len(flips)), generator=generator)
    resampled = float(flips[drawn].mean(1).quantile(0.95))
    unseen = 1 - 0.05 ** (1 / len(flips))  # with this share of such texts, none is seen in 5% of all audits
    return float(max(resampled, unseen * 2 / max(2, draws)))


def _moves(answers: Tensor) -> tuple[float, float, float, float]:
    """Flips, whether there are any, and the movement of the usual answer, of one text: (draws r c)."""
    draws, best = len(answers), answers.argmax(-1)  # draws r
    equal = (best[:, None] == best[None]).float().sum((0, 1)) - draws  # r, ordered pairs of different draws
    flips = 1 - equal / max(1, draws * (draws - 1))
    usual = best.mode(0).values  # r
    p = answers.gather(-1, usual.expand(draws, -1).unsqueeze(-1)).squeeze(-1)  # draws r
    spread = p.std(0, correction=0).mean()
    return float(flips.mean()), float((best != usual).sum()), float(spread), float((p.amax(0) - p.amin(0)).max())
