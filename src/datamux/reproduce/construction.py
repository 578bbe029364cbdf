"""The paper's self-attention construction, measured: how much of a sequence's output depends on the other sequences.

    interference = |output with these neighbours - output with others| / |output|, in the subspace of one sequence

It is zero for the construction with one head per sequence. Three things break it: heads that average the scores of all
sequences, subspaces that overlap as those of Gaussian Hadamard keys do, and weights without the structure.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from datamux.evaluate.records import make_record
from datamux.seeded import gaussian, random_orthogonal
from datamux.theory import ConstructedAttention, component

SIZES, DIM, TOKENS = (2, 4, 8, 16), 64, 12
METRIC = "interference, percent of the output"
SERIES = ("the construction", "heads shared by all", "overlapping subspaces", "unstructured weights")


def construction_record(sizes: tuple[int, ...] = SIZES, dim: int = DIM, seeds: int = 3) -> dict[str, Any]:
    """The interference of each variant at each N, as a mean over seeds."""
    rows = []
    for series in SERIES:
        for n in sizes:
            found = [100 * interference(series, n, dim, seed) for seed in range(seeds)]
            value = sum(found) / seeds
            spread = (sum((v - value) ** 2 for v in found) / seeds) ** 0.5
            rows.append(
                {"series": series, "n": n, "metric": METRIC, "value": value, "spread": spread, "seeds": seeds}
                | {"paper": 0.0 if series == SERIES[0] else None}
            )
    return make_record("theory", recipe=None, results=[], rows=rows, settings={"dim": dim, "tokens": TOKENS})


def interference(series: str, n: int, dim: int, seed: int) -> float:
    """How far the output of sequence 0 moves when all other sequences are replaced, relative to its length."""
    generator = torch.Generator().manual_seed(1000 + seed)
    attention = ConstructedAttention.build(n, dim, isolated=series != SERIES[1], seed=seed)
    if series == SERIES[3]:
        free = [torch.stack([random_orthogonal(dim, generator) for _ in range(n)]) for _ in range(4)]
        attention = replace(attention, query=free[0], key=free[1], value=free[2], output=free[3])
    own, others, more = (gaussian(n, TOKENS, dim // n, generator=generator).double() for _ in range(3))
    outputs = []
    for rest in (others, more):
        sequences = torch.cat([own[:1], rest[1:]])
        placed = _overlapping(sequences, attention, seed) if series == SERIES[2] else attention.place(sequences)
        outputs.append(component(attention(placed.sum(0)), attention.inputs, 0))
    return float((outputs[0] - outputs[1]).norm() / outputs[0].norm())


def _overlapping(sequences: Tensor, attention: ConstructedAttention, seed: int) -> Tensor:
    """The sequences in subspaces that are not orthogonal: each basis is multiplied by a Gaussian key."""
    generator = torch.Generator().manual_seed(2000 + seed)
    n, dim = len(sequences), attention.inputs.shape[-1]
    keys = gaussian(n, 1, dim, generator=generator).double()
    keys[0] = 1.0
    bases = attention.inputs[:1].double() * keys  # n m d: one subspace, keyed as Hadamard multiplexing does
    return torch.einsum("nlm,nmd->nld", sequences, bases)
