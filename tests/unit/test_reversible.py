"""Reversible adapters: the coupling is undone exactly for every number of slots, and shared by both parts."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datamux import Multiplexed, build_demultiplexer, build_multiplexer
from datamux.coupling import Coupling

MULTIPLE = 3  # numbers per slot


@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 12), width=st.integers(1, 5), tokens=st.integers(1, 4), seed=st.integers(0, 99))
def test_the_inverse_is_exact_for_every_number_of_slots(n, width, tokens, seed):
    torch.manual_seed(seed)
    coupling = Coupling("reversible", n, n * width, 7).double()
    small = torch.randn(2, n, tokens, width, dtype=torch.float64)
    large = coupling(small)
    assert large.shape == (2, tokens, n * width)
    torch.testing.assert_close(coupling.inverse(large), small, atol=1e-12, rtol=0)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_the_formula(n):
    torch.manual_seed(0)
    coupling = Coupling("reversible", n, n * MULTIPLE, 7)
    o = torch.randn(5, n, MULTIPLE)
    y = coupling(o).split(MULTIPLE, -1)
    f = coupling.functions
    expected = [o[:, 0]] if n == 1 else [o[:, n - 1] + f[0](o[:, n - 2])]
    for i in range(1, n):
        expected.append(o[:, n - 1 - i] + f[i](expected[i - 1]))
    torch.testing.assert_close(y, tuple(expected))


def test_every_member_reaches_the_mixture_in_training_and_in_evaluation_alike():
    multiplexer = build_multiplexer("reversible", 4, 12).train()
    x = torch.randn(2, 4, 5, 12)
    assert torch.equal(multiplexer(x), multiplexer(x)), "there is no dropout in training"
    assert torch.equal(multiplexer(x), multiplexer.eval()(x))
    for slot in range(4):
        changed = x.clone()
        changed[:, slot] += 1
        assert (multiplexer(changed) - multiplexer(x)).abs().max() > 1e-3
    members = multiplexer.members(multiplexer(x))
    torch.testing.assert_close(members, multiplexer.reduce(x), atol=1e-5, rtol=1e-5)


def test_both_parts_share_one_coupling_and_keep_it_when_copied():
    build = {"num_instances": 4, "dim": 12}
    model = Multiplexed(
        torch.nn.Identity(), build_multiplexer("reversible", **build), build_demultiplexer("reversible", **build)
    )
    assert not any("demultiplexer.coupling" in name for name in model.state_dict())
    for one in (model, copy.deepcopy(model)):
        x = torch.randn(8, 12)
        small = one.demultiplexer._couplings[0].inverse(one.multiplexer(x.view(2, 4, 12)))
        torch.testing.assert_close(small, one.multiplexer.reduce(x.view(2, 4, 12)), atol=1e-5, rtol=1e-5)
        one.multiplexer.coupling.functions[0][0].bias.data += 1  # the copy has a coupling of its own, shared again
    alone = Multiplexed(
        torch.nn.Identity(), build_multiplexer("ortho", **build), build_demultiplexer("reversible", **build)
    )
    assert any("demultiplexer.coupling" in name for name in alone.state_dict())


@pytest.mark.parametrize("reads", ["all", "first", "pool"])
def test_the_formula_of_the_demultiplexer(reads):
    torch.manual_seed(0)
    demultiplexer = build_demultiplexer("reversible", 4, 12, hidden_dim=10)
    h, mask = torch.randn(2, 5, 12), torch.tensor([5, 3, 1, 4]).view(1, 4, 1) > torch.arange(5)
    w1, w2, w3 = demultiplexer.widen[0], demultiplexer.widen[2], demultiplexer.out
    functions = demultiplexer.coupling.functions
    found = demultiplexer(h, 3, reads, mask[:, :3].expand(2, -1, -1))
    y = h.split(MULTIPLE, -1)
    o = [y[i] - functions[i](y[i - 1]) for i in (3, 2, 1)]  # o_0, o_1, o_2
    assert torch.allclose(y[0] - functions[0](o[2]), demultiplexer.coupling.inverse(h)[:, 3], atol=1e-5)
    for i in range(3):
        hidden = torch.nn.functional.gelu(o[i] @ w1.weight.T + w1.bias)
        hidden = torch.nn.functional.gelu(hidden @ w2.weight.T + w2.bias)  # b l e
        own = mask[0, i]
        hidden = {"all": hidden, "first": hidden[:, :1], "pool": hidden[:, own].mean(1, keepdim=True)}[reads]
        torch.testing.assert_close(found[:, i], hidden @ w3.weight.T + w3.bias, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("dim", "low", "high"), [(384, 8.5, 9.5), (768, 34, 38), (1024, 60.5, 67.5)])
def test_the_parts_are_as_large_as_the_guide_says(dim, low, high):
    """In megabytes; see docs/guides/successors.md."""
    for n in (2, 8):
        build = {"num_instances": n, "dim": dim}
        model = Multiplexed(
            torch.nn.Identity(), build_multiplexer("reversible", **build), build_demultiplexer("reversible", **build)
        )
        assert low < sum(4 * weight.numel() for weight in model.state_dict().values()) / 1e6 < high


def test_the_slots_must_divide_the_width():
    with pytest.raises(ValueError, match="reversible cuts the 12 dimensions into num_instances equal parts, and 5"):
        build_multiplexer("reversible", 5, 12)
