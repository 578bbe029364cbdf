"""Each multiplexer against its formula, written out slot by slot."""

import pytest
import torch
from torch.nn.functional import cosine_similarity

from datamux import MULTIPLEXERS, build_multiplexer
from datamux.train.recipe import load_recipe

B, N, L, D = 2, 3, 5, 12
X = torch.randn(B, N, L, D, generator=torch.Generator().manual_seed(1))


def test_identity_is_the_mean():
    torch.testing.assert_close(build_multiplexer("identity", N, D)(X), X.mean(1))


@pytest.mark.parametrize("name", ["gaussian_hadamard", "learned_hadamard", "binary", "sign", "near_one"])
def test_hadamard_formula(name):
    mux = build_multiplexer(name, N, D)
    expected = sum(X[:, i] * mux.keys[i] for i in range(N)) / N
    torch.testing.assert_close(mux(X), expected)


@pytest.mark.parametrize(("learned", "fixed"), [("learned_hadamard", "gaussian_hadamard"), ("learned_ortho", "ortho")])
def test_learned_keys_are_trained_and_fixed_ones_are_not(learned, fixed):
    assert build_multiplexer(learned, N, D).keys.requires_grad
    assert not list(build_multiplexer(fixed, N, D).parameters())
    assert torch.equal(build_multiplexer(learned, N, D, seed=4).keys, build_multiplexer(fixed, N, D, seed=4).keys)


def test_binary_keys_keep_one_chunk_each():
    keys = build_multiplexer("binary", N, D).keys
    assert keys.sum(0).tolist() == [1.0] * D
    assert keys[1].nonzero().flatten().tolist() == [4, 5, 6, 7]


def test_sign_keys():
    keys = build_multiplexer("sign", N, D).keys
    assert (keys.abs() == 1).all()
    assert (keys[0] == 1).all()


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_near_one_keys_leave_one_text_in_every_slot_nearly_as_it_is(n):
    """As the recipe small/mimo starts: an encoder can read such a mixture. With Gaussian keys it could not."""
    recipe, d = load_recipe("small/mimo", ["model.start=plain"]).model, 384
    x = torch.randn(5, d, generator=torch.Generator().manual_seed(2))
    repeated = x.unsqueeze(0).expand(n, 5, d).unsqueeze(0)
    mux = build_multiplexer(recipe.multiplexer, n, d, **recipe.multiplexer_options)
    mixture = mux(repeated)[0]
    assert cosine_similarity(mixture, x).min() > 0.9
    torch.testing.assert_close(mixture.norm(dim=1) / x.norm(dim=1), torch.ones(5), atol=0.1, rtol=0)
    assert mux.keys.requires_grad
    difference = torch.cdist(mux.keys, mux.keys) / mux.keys.norm(dim=1)
    assert (difference + torch.eye(n) > 0.3).all(), "every slot has a key of its own"
    other = build_multiplexer(recipe.multiplexer, n, d, **recipe.multiplexer_options, seed=1)
    assert not torch.equal(mux.keys, other.keys)
    gaussian = build_multiplexer("learned_hadamard", n, d)(repeated)[0]
    assert cosine_similarity(gaussian, x).max() < 0.5


def test_key_norm():
    keys = build_multiplexer("gaussian_hadamard", N, D, key_norm=20.0).keys
    torch.testing.assert_close(keys.norm(dim=1), torch.full((N,), 20.0))


def test_ortho_keeps_lengths_and_matches_formula():
    mux = build_multiplexer("ortho", N, D)
    for matrix in mux.keys:
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(D), atol=1e-5, rtol=0)
    torch.testing.assert_close(mux(X), sum(X[:, i] @ mux.keys[i] for i in range(N)) / N, atol=1e-5, rtol=1e-5)


def test_low_rank_slots_are_orthogonal():
    mux = build_multiplexer("low_rank", N, D, scale="sum")
    alone = [torch.zeros(B, N, L, D).index_copy(1, torch.tensor([i]), X[:, i : i + 1]) for i in range(N)]
    parts = [mux(x) for x in alone]
    torch.testing.assert_close(sum(parts), mux(X), atol=1e-5, rtol=1e-5)
    for i in range(N):
        matrix = mux.reduce[i] @ mux.place[i]
        assert torch.linalg.matrix_rank(matrix) == D // N
        for j in range(i):
            assert (parts[i] * parts[j]).sum(-1).abs().max() < 1e-5


@pytest.mark.parametrize(("scale", "factor"), [("mean", 1 / 3), ("sqrt", 3**-0.5), ("sum", 1.0)])
def test_scale(scale, factor):
    torch.testing.assert_close(build_multiplexer("identity", N, D, scale=scale)(X), X.sum(1) * factor)


@pytest.mark.parametrize("scale", ["mean", "sqrt"])
def test_scale_counts_the_slots_in_use(scale):
    """An empty slot adds nothing and is not counted: as if the group had been smaller."""
    mux = build_multiplexer("gaussian_hadamard", N, D, scale=scale)
    mask = torch.ones(B, N, L, dtype=torch.bool)
    mask[1, 2] = False
    torch.testing.assert_close(mux(X, mask)[1], mux(X[1:, :2])[0])


def test_contextual_reads_the_whole_sequence_but_not_the_padding():
    mux = build_multiplexer("contextual", N, D)
    mask = torch.ones(B, N, L, dtype=torch.bool)
    mask[:, 1, 3:] = False
    before = mux(X, mask)
    noise = X.clone()
    noise[:, 1, 3:] = 9.0
    torch.testing.assert_close(mux(noise, mask), before)
    other = X.clone()
    other[:, 1, 0] += 1.0
    assert (mux(other, mask)[:, 2] - before[:, 2]).abs().max() > 1e-4


def test_contextual_needs_sequences():
    with pytest.raises(ValueError, match="token sequences"):
        build_multiplexer("contextual", N, D)(X[:, :, 0])


@pytest.mark.parametrize("name", ["binary", "low_rank"])
def test_indivisible_width(name):
    with pytest.raises(ValueError, match=r"5 does not divide 12; allowed: 1, 2, 3, 4, 6, 12"):
        build_multiplexer(name, 5, D)


@pytest.mark.parametrize("name", MULTIPLEXERS)
def test_wrong_shapes(name):
    mux = build_multiplexer(name, N, D)
    with pytest.raises(ValueError, match=r"got \(2, 3, 5, 11\)"):
        mux(X[..., :-1])
    with pytest.raises(ValueError, match="4 slots"):
        mux(torch.zeros(B, 4, L, D))


def test_unknown_names():
    with pytest.raises(ValueError, match="Did you mean 'ortho'"):
        build_multiplexer("orto", N, D)
    with pytest.raises(ValueError, match="key_norm"):
        build_multiplexer("gaussian_hadamard", N, D, keynorm=1.0)
    with pytest.raises(ValueError, match="Did you mean 'near_one'"):
        build_multiplexer("near_ones", N, D)
    with pytest.raises(ValueError, match="allowed: mean, sqrt, sum"):
        build_multiplexer("ortho", N, D, scale="max")
    with pytest.raises(ValueError, match="num_instances must be a whole number of at least 1, got 0"):
        build_multiplexer("ortho", 0, D)
