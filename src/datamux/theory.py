"""The paper's construction: self-attention that works on n sequences at once, in n independent subspaces.

Paper: Section 4.4 and its appendix. With orthonormal bases D^1 ... D^n of the input space and every weight matrix
sharing its singular spaces with them,

    W = sum_k L_k diag(s_k) R_k^T,    R_k spans D^k,  L_k spans the dual subspace of slot k

so that for a mixture w_t = sum_k u_t^(k) with u_t^(k) in D^k

    values        W_V w_t = sum_k v_t^(k),                    the v^(k) orthogonal to each other       (claim 1)
    scores        (W_K w_t')^T W_Q w_t = sum_k tau_tt'^(k),   each from only one sequence              (claim 2)
    isolation     a head with s_k' = 0 for all k' != k attends, and answers, only for sequence k       (claim 3)
    output        W_O of the same form keeps the subspaces apart                                       (claim 4)

These are real weight matrices, made so that each claim can be checked by multiplying. It is an existence proof:
the paper itself finds that trained networks do not need one head per sequence.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from datamux.seeded import gaussian, random_orthogonal


def subspaces(num_instances: int, dim: int, generator: torch.Generator) -> Tensor:
    """Orthonormal bases of n mutually orthogonal subspaces: (n m d), m = d / n rows each."""
    if dim % num_instances:
        raise ValueError(f"{dim} dimensions do not split into {num_instances} equal subspaces")
    rows = random_orthogonal(dim, generator)
    return rows.view(num_instances, dim // num_instances, dim)


def structured_matrix(left: Tensor, right: Tensor, singular_values: Tensor) -> Tensor:
    """W = sum_k L_k diag(s_k) R_k^T from bases (n m d) and singular values (n m); it acts on column vectors."""
    return torch.einsum("nmo,nm,nmi->oi", left, singular_values, right)


@dataclass(frozen=True)
class ConstructedAttention:
    """Multi-head self-attention made of structured matrices. If `isolated`, head k serves only sequence k.

    query, key, value, output: (heads d d). inputs: bases of D^k; duals: bases of the value space; both (n m d).
    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    inputs: Tensor
    duals: Tensor

    @classmethod
    def build(cls, num_instances: int, dim: int, *, isolated: bool, seed: int = 0) -> "ConstructedAttention":
        generator = torch.Generator().manual_seed(seed)
        n, m = num_instances, dim // num_instances
        inputs = subspaces(n, dim, generator)
        scores = subspaces(n, dim, generator)
        duals = subspaces(n, dim, generator)

        def turned(bases: Tensor) -> Tensor:
            """The same subspaces with other bases: only the spans must agree, not the vectors."""
            turns = torch.stack([random_orthogonal(m, generator) for _ in range(n)])
            return turns @ bases

        def matrix(left: Tensor, right: Tensor, head: int) -> Tensor:
            strength = gaussian(n, m, generator=generator).double().abs() + 0.5
            if isolated:
                strength = strength * (torch.arange(n) == head)[:, None]
            return structured_matrix(turned(left), turned(right), strength)

        heads = range(n)
        return cls(
            query=torch.stack([matrix(scores, inputs, head) for head in heads]),
            key=torch.stack([matrix(scores, inputs, head) for head in heads]),
            value=torch.stack([matrix(duals, inputs, head) for head in heads]),
            output=torch.stack([matrix(inputs, duals, head) for head in heads]),
            inputs=inputs,
            duals=duals,
        )

    def place(self, sequences: Tensor) -> Tensor:
        """Sequences (n l m) in coordinates of their own subspace -> u (n l d), the terms of the mixture."""
        return torch.einsum("nlm,nmd->nld", sequences, self.inputs)

    def scores(self, w: Tensor, other: Tensor | None = None) -> Tensor:
        """(W_K w_t')^T W_Q w_t for each head: (heads l l). `other` takes the keys from another sequence."""
        queries = torch.einsum("hoi,li->hlo", self.query, w)
        keys = torch.einsum("hoi,li->hlo", self.key, w if other is None else other)
        return queries @ keys.mT

    def values(self, w: Tensor) -> Tensor:
        """W_V w_t for each head: (heads l d)."""
        return torch.einsum("hoi,li->hlo", self.value, w)

    def __call__(self, w: Tensor) -> Tensor:
        """The attention output for one sequence of vectors, mixed or not: (l d) -> (l d)."""
        attention = torch.softmax(self.scores(w) / math.sqrt(w.shape[-1]), dim=-1)
        return torch.einsum("hoi,hli->lo", self.output, attention @ self.values(w))


def component(vectors: Tensor, bases: Tensor, slot: int) -> Tensor:
    """The part of `vectors` (... d) that lies in the subspace of one slot."""
    basis = bases[slot]
    return vectors @ basis.T @ basis
