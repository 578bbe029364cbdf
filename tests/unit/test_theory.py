"""Each claim of the paper's construction, by multiplying; and each failing when its assumption is broken."""

from dataclasses import replace

import pytest
import torch

from datamux.theory import ConstructedAttention, component, subspaces

N, L, M = 3, 5, 4
D = N * M


@pytest.fixture
def sequences():
    return torch.randn(N, L, M, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.fixture(params=[False, True], ids=["shared heads", "a head a sequence"])
def attention(request):
    return ConstructedAttention.build(N, D, isolated=request.param)


def _max(x):
    return float(x.abs().max())


def test_subspaces_are_orthogonal():
    flat = subspaces(N, D, torch.Generator().manual_seed(0)).flatten(0, 1)
    assert _max(flat @ flat.T - torch.eye(D)) < 1e-10
    with pytest.raises(ValueError, match="12 dimensions do not split into 5"):
        subspaces(5, D, torch.Generator())


def test_claim_1_values_decompose_into_independent_subspaces(attention, sequences):
    u = attention.place(sequences)
    total = attention.values(u.sum(0))
    for k in range(N):
        assert _max(component(total, attention.duals, k) - attention.values(u[k])) < 1e-10
        for other in range(k):
            assert _max((attention.values(u[k]) * attention.values(u[other])).sum(-1)) < 1e-10


def test_claim_2_scores_are_sums_of_one_term_a_sequence(attention, sequences):
    u = attention.place(sequences)
    w = u.sum(0)
    assert _max(attention.scores(w) - sum(attention.scores(u[k]) for k in range(N))) < 1e-10
    for k in range(N):
        for other in range(N):
            if k != other:
                assert _max(attention.scores(u[k], u[other])) < 1e-10


def test_claim_3_one_head_a_sequence_is_exact_non_interference(sequences):
    attention = ConstructedAttention.build(N, D, isolated=True)
    u = attention.place(sequences)
    mixed = attention(u.sum(0))
    for k in range(N):
        assert _max(component(mixed, attention.inputs, k) - attention(u[k])) < 1e-10
        assert _max(attention(u[k])) > 1e-2, "an answer of zeros would be equal too"


def test_claim_4_output_stays_in_the_input_subspaces(sequences):
    """So that layers can be stacked: the second layer finds the mixture that it was built for."""
    attention = ConstructedAttention.build(N, D, isolated=True)
    u = attention.place(sequences)
    twice = attention(attention(u.sum(0)))
    for k in range(N):
        assert _max(component(twice, attention.inputs, k) - attention(attention(u[k]))) < 1e-10


def test_shared_heads_attend_to_an_average_and_interfere(sequences):
    attention = ConstructedAttention.build(N, D, isolated=False)
    u = attention.place(sequences)
    mixed = attention(u.sum(0))
    assert max(_max(component(mixed, attention.inputs, k) - attention(u[k])) for k in range(N)) > 1e-2


def test_claims_fail_when_inputs_leave_their_subspaces(sequences):
    attention = ConstructedAttention.build(N, D, isolated=True)
    u = attention.place(sequences) + 0.3 * torch.randn(N, L, D, generator=torch.Generator().manual_seed(3))
    total, mixed = attention.values(u.sum(0)), attention(u.sum(0))
    assert max(_max(component(total, attention.duals, k) - attention.values(u[k])) for k in range(N)) > 1e-2
    assert max(_max(component(mixed, attention.inputs, k) - attention(u[k])) for k in range(N)) > 1e-2


def test_claims_fail_for_weights_without_the_structure(sequences):
    built = ConstructedAttention.build(N, D, isolated=True)
    generator = torch.Generator().manual_seed(4)
    free = replace(built, value=torch.randn(built.value.shape, generator=generator, dtype=torch.float64))
    u = built.place(sequences)
    total = free.values(u.sum(0))
    assert max(_max(component(total, free.duals, k) - free.values(u[k])) for k in range(N)) > 1e-1
    query = replace(built, query=torch.randn(built.query.shape, generator=generator, dtype=torch.float64))
    assert _max(query.scores(u[0], u[1])) > 1e-1
