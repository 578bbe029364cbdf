"""Each demultiplexer against its formula, written out slot by slot."""

import pytest
import torch
from torch.nn import functional as F

from datamux import DEMULTIPLEXERS, build_demultiplexer, build_multiplexer

B, N, L, D = 2, 3, 5, 12
H = torch.randn(B, L, D, generator=torch.Generator().manual_seed(1))


def _norm(demux, z):
    return F.layer_norm(z, (D,), demux.norm.weight, demux.norm.bias)


def test_key_formula():
    demux = build_demultiplexer("key", N, D)
    whole = torch.cat([demux.from_state.weight, demux.from_slot.weight], dim=1)
    z = demux(H, N)
    for i in range(N):
        joined = torch.cat([H, demux.keys[i].expand_as(H)], dim=-1)
        expected = _norm(demux, demux.out(F.gelu(joined @ whole.T + demux.from_state.bias)))
        torch.testing.assert_close(z[:, i], expected)


@pytest.mark.parametrize("linear", [False, True])
def test_gate_formula(linear):
    demux = build_demultiplexer("gate", N, D, hidden_dim=7, linear=linear)
    z = demux(H, N)
    mask = torch.rand(B, N, L) > 0.3
    mask[..., 0] = True
    pooled = demux(H, N, "pool", mask)
    for i in range(N):
        a = F.gelu(H @ demux.from_state.weight.T + demux.from_state.bias)
        past = H * demux.gates[i, 7:] if linear else torch.zeros_like(H)
        before_norm = demux.out(a * demux.gates[i, :7]) + past
        torch.testing.assert_close(z[:, i], _norm(demux, before_norm))
        mean = torch.stack(
            [before_norm[b][mask[b, i]].mean(0) for b in range(B)]
        )  # all after the nonlinearity is linear
        torch.testing.assert_close(pooled[:, i, 0], _norm(demux, mean))
    torch.testing.assert_close(demux(H, N, "pool"), demux(H, N, "pool", torch.ones(B, N, L, dtype=torch.bool)))


def test_a_linear_gate_starts_by_undoing_the_sign_keys():
    demux = build_demultiplexer("gate", N, D, hidden_dim=7, linear=True, seed=5)
    assert torch.equal(demux.gates[:, 7:], build_multiplexer("sign", N, D, seed=5).keys)


def test_mlp_formula():
    demux = build_demultiplexer("mlp", N, D, hidden_dim=7)
    z = demux(H, N)
    for i in range(N):
        a = F.gelu(H @ demux.weight_in[i] + demux.bias_in[i])
        torch.testing.assert_close(z[:, i], _norm(demux, a @ demux.weight_out[i] + demux.bias_out[i]))


def test_mlp_starts_as_linear_layers_do():
    demux = build_demultiplexer("mlp", N, 100, hidden_dim=64, out_dim=32, seed=1)
    pairs = (
        (demux.weight_in, demux.bias_in, torch.nn.Linear(100, 64)),
        (demux.weight_out, demux.bias_out, torch.nn.Linear(64, 32)),
    )
    for weight, bias, layer in pairs:
        limit = layer.in_features**-0.5
        for own, theirs in ((weight, layer.weight), (bias, layer.bias)):
            assert 0.9 * limit < float(own.detach().abs().max()) <= limit
            assert float(own.detach().std()) == pytest.approx(limit / 3**0.5, rel=0.15)
            assert float(own.detach().std()) == pytest.approx(float(theirs.detach().std()), rel=0.3)
        assert (weight[0] != weight[1]).any(), "every slot starts elsewhere"
    again, other = (build_demultiplexer("mlp", N, 100, hidden_dim=64, out_dim=32, seed=seed) for seed in (1, 2))
    assert torch.equal(again.bias_out, demux.bias_out)
    assert not torch.equal(other.bias_out, demux.bias_out)


def test_mlp_of_one_layer():
    demux = build_demultiplexer("mlp", N, D, layers=1, out_dim=4, activation="tanh")
    torch.testing.assert_close(demux(H[:, 0], N)[:, 2, 0], torch.tanh(H[:, 0] @ demux.weight_in[2] + demux.bias_in[2]))


def test_index_prefix_and_formula():
    demux = build_demultiplexer("index", 4, D, embedding_dim=6)
    x = torch.randn(B, N, L, 6)
    mask = torch.ones(B, N, L, dtype=torch.bool)
    mask[1, 2] = False
    longer, longer_mask = demux.add_prefix(x, mask)
    assert longer.shape == (B, N, N + L, 6)
    assert torch.equal(longer[:, :, N:], x)
    for i in range(N):
        for p in range(N):
            assert torch.equal(longer[0, i, p], demux.tokens[i] if i == p else demux.tokens[-1])
    assert longer_mask[0].all()
    assert not longer_mask[1, 2].any(), "an empty slot has no prefix either"

    h = torch.randn(B, N + L, D)
    z = demux(h, N)
    assert z.shape == (B, N, L, D)
    for i in range(N):
        a = F.gelu(demux.from_state(h[:, N:]) + demux.from_slot(h[:, i : i + 1]))
        torch.testing.assert_close(z[:, i], _norm(demux, demux.out(a)))


def test_index_needs_sequences():
    with pytest.raises(ValueError, match="token sequences"):
        build_demultiplexer("index", N, D).add_prefix(torch.zeros(B, N, D), None)


@pytest.mark.parametrize("name", DEMULTIPLEXERS)
def test_reads_select_what_all_would_give(name):
    demux = build_demultiplexer(name, N, D)
    h = torch.randn(B, demux.prefix_length(2) + L, D)
    every = demux(h, 2)
    torch.testing.assert_close(demux(h, 2, "first"), every[:, :, :1])
    h[:, demux.prefix_length(2) :] = h[:, -1:]  # the mean of equal tokens is what each of them gives
    torch.testing.assert_close(demux(h, 2, "pool"), demux(h, 2)[:, :, :1])


@pytest.mark.parametrize("name", DEMULTIPLEXERS)
def test_pool_is_over_own_tokens_only(name):
    demux = build_demultiplexer(name, N, D)
    p = demux.prefix_length(N)
    h = torch.randn(B, p + L, D)
    mask = torch.ones(B, N, L, dtype=torch.bool)
    mask[:, 1, 2:] = False
    pooled = demux(h, N, "pool", mask)
    noise = h.clone()
    noise[:, p + 2 :] += 1.0
    changed = demux(noise, N, "pool", mask)
    torch.testing.assert_close(changed[:, 1], pooled[:, 1])
    assert (changed[:, 0] - pooled[:, 0]).abs().max() > 1e-3
    one = torch.zeros(B, N, L, dtype=torch.bool)
    one[..., 3] = True
    torch.testing.assert_close(demux(h, N, "pool", one), demux(h, N)[:, :, 3:4])


@pytest.mark.parametrize("name", sorted(DEMULTIPLEXERS.keys() - {"index"}))  # whose prefix grows with the group
def test_slots_do_not_depend_on_how_many_are_read(name):
    demux = build_demultiplexer(name, N, D)
    torch.testing.assert_close(demux(H, 2), demux(H, N)[:, :2])


@pytest.mark.parametrize("name", DEMULTIPLEXERS)
def test_wrong_input(name):
    demux = build_demultiplexer(name, N, D)
    with pytest.raises(ValueError, match=r"got \(2, 5, 11\)"):
        demux(H[..., :-1], N)
    with pytest.raises(ValueError, match="slots must be 1 to 3, got 4"):
        demux(H, 4)
    with pytest.raises(ValueError, match="allowed: all, first, pool"):
        demux(H, N, "last")


def test_unknown_names():
    with pytest.raises(ValueError, match="Did you mean 'index'"):
        build_demultiplexer("indx", N, D)
    with pytest.raises(ValueError, match="layers must be 1 or 2"):
        build_demultiplexer("mlp", N, D, layers=3)
    with pytest.raises(ValueError, match="num_instances must be a whole number of at least 1"):
        build_demultiplexer("key", 0, D)
