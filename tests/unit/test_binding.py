"""Circular binding against its formula, feature maps of a convolutional network, and the deep demultiplexer."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from datamux import Multiplexed, build_demultiplexer, build_multiplexer
from datamux.backbones.feature_maps import FeatureMaps
from datamux.heads import SequenceHead
from datamux.train.extra_losses import key_penalty

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
def test_both_are_1x1_convolutions_with_a_kernel_per_slot(multiplexer):
    """The kernel of circular binding has the slot's key in its columns, each moved down by one more place."""
    model = network(multiplexer)
    maps = torch.randn(2, N, 12, 6, 5)
    mixture = model.multiplexer(maps.permute(0, 1, 3, 4, 2)).permute(0, 3, 1, 2)
    keys = model.multiplexer.keys
    if multiplexer == "learned_ortho":
        kernels = keys.transpose(1, 2)
    else:
        kernels = torch.stack([keys.roll(column, dims=1) for column in range(12)], dim=2)
    expected = sum(F.conv2d(maps[:, i], kernels[i][..., None, None]) for i in range(N)) / N
    torch.testing.assert_close(mixture, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("multiplexer", ["learned_circular", "learned_ortho"])
def test_a_network_on_feature_maps_learns(multiplexer):
    """Which of four quarters of an image is bright, with the penalty on its keys, as in the guide."""
    torch.manual_seed(0)
    labels = torch.randint(4, (60 * N,))
    images = 0.1 * torch.randn(len(labels), 1, 6, 6)
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = 3 * (label // 2), 3 * (label % 2)
        image[:, row : row + 3, column : column + 3] += 1
    stem = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.Tanh())
    body = nn.Sequential(nn.Flatten(), nn.Linear(12 * 36, 20), nn.ReLU())
    model = Multiplexed(
        FeatureMaps(stem, body, channels=12, dim=20),
        build_multiplexer(multiplexer, N, 12),
        build_demultiplexer("mlp", N, 20),
        SequenceHead(20, 4, reads="first"),
    )
    before = model.multiplexer.keys.detach().clone()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels) + 0.1 * key_penalty(model.multiplexer.keys)
        loss.backward()
        optimizer.step()
    model.eval()
    shuffled = torch.randperm(len(labels))  # other neighbours
    assert (model(images[shuffled]).argmax(-1) == labels[shuffled]).float().mean() > 0.8
    assert not torch.equal(model.multiplexer.keys, before), "the keys learn"
    assert float(key_penalty(model.multiplexer.keys.detach())) < 0.2


def test_a_stem_must_give_maps():
    model = network("circular")
    model.backbone.stem = nn.Flatten()
    with pytest.raises(ValueError, match=r"the stem must give maps \(images, 12, height, width\)"):
        model(torch.randn(3, 1, 6, 5))


def normed(norm, x):
    return F.layer_norm(x, (x.shape[-1],)) * norm.weight + norm.bias


@pytest.mark.parametrize("layers", [2, 3, 5])
def test_the_formula_of_the_deep_demultiplexer(layers):
    torch.manual_seed(0)
    demultiplexer = build_demultiplexer("deep_key", N, 8, layers=layers)
    for weight in demultiplexer.parameters():  # LayerNorms, too, which start as if they were not there
        torch.nn.init.normal_(weight)
    h = torch.randn(2, 5, 8)
    for i in range(N):
        first = torch.cat([demultiplexer.from_slot.weight, demultiplexer.from_state.weight], 1)  # [key; h]
        joined = torch.cat([demultiplexer.keys[i].expand(2, 5, 8), h], -1)
        a = normed(demultiplexer.norm, F.gelu(F.linear(joined, first, demultiplexer.from_state.bias)))
        assert len(demultiplexer.middle) == layers - 2
        for layer in (*demultiplexer.middle, demultiplexer.last):
            a = a + normed(layer.norm, F.gelu(layer.dense(a)))
        torch.testing.assert_close(demultiplexer(h, N)[:, i], a, atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="layers must be at least 2"):
        build_demultiplexer("deep_key", N, 8, layers=1)
