"""The plain-module door: any nn.Module with our parts, and the rows-in-rows-out heart."""

import pytest
import torch
from torch import nn

from conftest import random_rows, tiny_encoder
from datamux import Multiplexed, build_demultiplexer, build_multiplexer, multiplex
from datamux.heads import SequenceHead
from datamux.vision.networks import Readout

N, D = 3, 12


def vectors_model(**options):
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Linear(D, 10), nn.Tanh())
    demux = build_demultiplexer("mlp", N, 10, layers=1, out_dim=6, activation="tanh")
    return Multiplexed(backbone, build_multiplexer("ortho", N, D), demux, Readout(6, 4), **options)


def test_vectors_in_rows_out():
    model = vectors_model()
    x = torch.randn(7, D)
    answers = model(x)
    assert answers.shape == (7, 4)
    torch.testing.assert_close(model(x[:3]), answers[:3])
    torch.testing.assert_close(model(x[6:]), answers[6:])
    assert model(x, group_size=2).shape == (7, 4)
    assert model(x[:0]).shape == (0, 4)


def test_vectors_by_hand():
    model = vectors_model()
    x = torch.randn(N, D)
    mixture = sum(x[i] @ model.multiplexer.keys[i] for i in range(N)) / N
    h = model.backbone.module(mixture)
    for i in range(N):
        z = torch.tanh(h @ model.demultiplexer.weight_in[i] + model.demultiplexer.bias_in[i])
        torch.testing.assert_close(model(x)[i], torch.tanh(model.head.out(z)), atol=1e-5, rtol=1e-5)


def test_sequences_with_any_module():
    torch.manual_seed(0)
    backbone = nn.TransformerEncoderLayer(D, 2, 20, batch_first=True).eval()
    mux, demux = build_multiplexer("gaussian_hadamard", N, D), build_demultiplexer("index", N, D)
    model = Multiplexed(backbone, mux, demux, SequenceHead(D, 4)).eval()
    x = torch.randn(7, 5, D)
    for whole, shape in ((model, (7, 4)), (Multiplexed(backbone, mux, demux).eval(), (7, 5, D))):
        found = whole(x)
        assert found.shape == shape
        torch.testing.assert_close(found[N : 2 * N], whole(x[N : 2 * N]), atol=1e-5, rtol=1e-5)


def test_parts_must_agree():
    with pytest.raises(ValueError, match="3 slots and the demultiplexer 2"):
        Multiplexed(nn.Identity(), build_multiplexer("ortho", 3, D), build_demultiplexer("key", 2, D))


@torch.no_grad()
@pytest.mark.parametrize(
    ("demultiplexer", "table", "embedded"),
    [
        ("gate", True, []),  # looked up, two groups and one slot at a time
        ("gate", False, [(2, 1)] * 6 + [(1, 1)] * 3),
        ("index", True, [(2, 3), (2, 3), (1, 3)]),  # the prefix wants all slots
    ],
)
@pytest.mark.parametrize("padded", [True, False])
def test_mixing_a_little_at_a_time_changes_nothing(monkeypatch, demultiplexer, table, embedded, padded):
    model = multiplex(tiny_encoder(), 3, demultiplexer=demultiplexer, multiplexer="sign")
    rows = random_rows(14)
    rows = rows if padded else {"input_ids": rows["input_ids"]}
    with torch.enable_grad():
        whole = model(**rows).logits.detach()
    seen = []
    embed = model.backbone.embed
    monkeypatch.setattr(model.backbone, "embed", lambda x, *a, **k: seen.append(x.shape[:2]) or embed(x, *a, **k))
    monkeypatch.setattr("datamux.cpu_mixing.CACHED", (3 if demultiplexer == "index" else 1) * 2 * 7 * 24)
    if not table:
        monkeypatch.setattr(type(model.backbone), "table", None)
    parts = model(**rows).logits
    assert seen == embedded
    torch.testing.assert_close(parts, whole, atol=1e-5, rtol=1e-4)
