"""Circular binding against its formula, feature maps of a convolutional network, and the deep demultiplexer."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from datamux import Multiplexed, build_demultiplexer, build_multiplexer
from datamux.backbones.feature_maps import FeatureMaps
from datamux.heads import SequenceHead

N = 3


@pytest.mark.parametrize("dim", [8, 9])
def test_the_formula_of_circular_binding(dim):
    multiplexer = build_multiplexer("circular", N, dim, scale="sum")
    x = torch.randn(2, N, 5, dim)
    expected = torch.zeros(2, 5, dim)
    for i in range(N):
        for k in range(dim):
            for j in range(dim):
                expected[..., k] += multiplexer.keys[i, j] * x[:, i, :, (k - j) % dim]
    torch.testing.assert_close(multiplexer(x), expected, atol=1e-5, rtol=1e-4)


def test_circular_keys_keep_about_the_length_of_a_vector():
    multiplexer = build_multiplexer("circular", 1, 512)
    x = torch.randn(1, 1, 200, 512)
    assert float(multiplexer(x).norm(dim=-1).mean() / x.norm(dim=-1).mean()) == pytest.approx(1, abs=0.1)
    assert build_multiplexer("learned_circular", 2, 8).keys.requires_grad


def network(multiplexer):
    stem = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.Tanh())
    body = nn.Sequential(nn.Conv2d(12, 20, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Multiplexed(
        FeatureMaps(stem, body, channels=12, dim=20),
        build_multiplexer(multiplexer, N, 12),
        build_demultiplexer("mlp", N, 20),
        SequenceHead(20, 4, reads="first"),
    ).eval()


@pytest.mark.parametrize("multiplexer", ["learned_circular", "learned_ortho"])
def test_maps_are_bound_at_every_position(multiplexer):
    model = network(multiplexer)
    images = torch.randn(7, 1, 6, 5)  # not square, so that height and width cannot be swapped
    assert model(images).shape == (7, 4)
    mixture, _ = model.mix_groups(images[:N].unsqueeze(0))
    maps = model.backbone.stem(images[:N])  # n c h w
    at_one_position = model.multiplexer(maps[None, :, :, 4, 2])
    torch.testing.assert_close(mixture[:, 4, 2], at_one_position, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("multiplexer", ["learned_circular", "learned_ortho"])
def test_a_1x1_convolution_per_slot_is_the_same_as_learned_ortho(multiplexer):
    model = network(multiplexer)
    maps = torch.randn(2, N, 12, 6, 5)
    mixture = model.multiplexer(maps.permute(0, 1, 3, 4, 2)).permute(0, 3, 1, 2)
    if multiplexer == "learned_ortho":
        kernels = model.multiplexer.keys.transpose(1, 2)[..., None, None]
        expected = sum(F.conv2d(maps[:, i], kernels[i]) for i in range(N)) / N
        torch.testing.assert_close(mixture, expected, atol=1e-5, rtol=1e-4)
    assert mixture.shape == (2, 12, 6, 5)


def test_a_stem_must_give_maps():
    model = network("circular")
    model.backbone.stem = nn.Flatten()
    with pytest.raises(ValueError, match=r"the stem must give maps \(images, 12, height, width\)"):
        model(torch.randn(3, 1, 6, 5))


@pytest.mark.parametrize("layers", [2, 3, 5])
def test_the_formula_of_the_deep_demultiplexer(layers):
    torch.manual_seed(0)
    demultiplexer = build_demultiplexer("deep_key", N, 8, layers=layers)
    h = torch.randn(2, 5, 8)
    for i in range(N):
        first = torch.cat([demultiplexer.from_slot.weight, demultiplexer.from_state.weight], 1)  # [key; h]
        joined = torch.cat([demultiplexer.keys[i].expand(2, 5, 8), h], -1)
        a = F.layer_norm(F.gelu(F.linear(joined, first, demultiplexer.from_state.bias)), (8,))
        assert len(demultiplexer.middle) == layers - 2
        for layer in (*demultiplexer.middle, demultiplexer.last):
            a = a + F.layer_norm(F.gelu(layer.dense(a)), (8,))
        torch.testing.assert_close(demultiplexer(h, N)[:, i], a, atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="layers must be at least 2"):
        build_demultiplexer("deep_key", N, 8, layers=1)
