"""Image multiplexers against what they say they do, on pictures small enough to check by eye."""

import pytest
import torch
from torch.nn import functional as F

from datamux import Multiplexed, build_demultiplexer, build_multiplexer
from datamux.backbones.vision import DigitCnn, Readout
from datamux.multiplexers import IMAGE_MULTIPLEXERS

N, SIDE = 4, 20
IMAGES = torch.rand(3, N, SIDE * SIDE, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", IMAGE_MULTIPLEXERS)
def test_a_sum_over_slots_that_the_network_takes(name):
    mux = build_multiplexer(name, N, SIDE * SIDE)
    mixture = mux(IMAGES)
    assert mixture.shape == (3, mux.out_dim)
    alone = torch.zeros_like(mixture)
    for i in range(N):
        one = torch.zeros_like(IMAGES)
        one[:, i] = IMAGES[:, i]
        alone += mux(one) - mux(torch.zeros_like(IMAGES))
    torch.testing.assert_close(alone + mux(torch.zeros_like(IMAGES)), mixture, atol=1e-4, rtol=1e-4)
    demux = build_demultiplexer("mlp", N, 84, layers=1, out_dim=84, activation="tanh")
    model = Multiplexed(DigitCnn(mux.maps), mux, demux, Readout(84, 10))
    assert model(IMAGES.flatten(0, 1)).shape == (12, 10)


def test_rotation_turns():
    mux = build_multiplexer("rotation", N, SIDE * SIDE)
    picture = IMAGES[:1, 0].view(SIDE, SIDE)
    for slot in range(N):
        one = torch.zeros(1, N, SIDE * SIDE)
        one[:, slot] = picture.flatten()
        turned = mux(one).view(SIDE, SIDE)
        torch.testing.assert_close(turned, torch.rot90(picture, slot), atol=1e-4, rtol=1e-4)
        published = build_multiplexer("rotation_as_published", N, SIDE * SIDE)(one).view(SIDE, SIDE)
        torch.testing.assert_close(published, (1 - 2 * slot) * turned, atol=1e-4, rtol=1e-4)


def test_mosaic_places_every_image():
    whole = build_multiplexer("mosaic", N, SIDE * SIDE)(IMAGES).view(3, SIDE, SIDE)
    small = F.avg_pool2d(IMAGES.view(3, N, SIDE, SIDE), 2)
    torch.testing.assert_close(whole[:, :10, :10], small[:, 0])
    torch.testing.assert_close(whole[:, :10, 10:], small[:, 1])
    torch.testing.assert_close(whole[:, 10:, 10:], small[:, 3])


def test_the_published_mosaic_keeps_one_image_of_four_as_a_flat_band():
    n = 8
    images = torch.rand(3, n, SIDE * SIDE, generator=torch.Generator().manual_seed(1))
    published = build_multiplexer("mosaic_as_published", n, SIDE * SIDE)(images).view(3, SIDE, SIDE)
    pictures = images.view(3, n, SIDE, SIDE)
    torch.testing.assert_close(published[:, :5], pictures[:, 0, ::4])
    torch.testing.assert_close(published[:, 5:10], pictures[:, 4, ::4])
    assert not published[:, 10:].any()
    with pytest.raises(ValueError, match="1 to 16"):
        build_multiplexer("mosaic_as_published", 17, SIDE * SIDE)


def test_kernels():
    mux = build_multiplexer("random_kernel", N, SIDE * SIDE, seed=3)
    each = [F.conv2d(IMAGES[:, i].view(3, 1, SIDE, SIDE), mux.keys[i : i + 1], padding=1) for i in range(N)]
    torch.testing.assert_close(mux(IMAGES), sum(each).flatten(1), atol=1e-4, rtol=1e-4)
    assert not mux.keys.requires_grad
    assert build_multiplexer("learned_kernel", N, SIDE * SIDE).keys.requires_grad


def test_nonlinear():
    mux = build_multiplexer("nonlinear_4x", N, SIDE * SIDE)
    total = 0
    for i in range(N):
        a = F.conv2d(IMAGES[:, i].view(3, 1, SIDE, SIDE), mux.first[i], mux.first_bias[i], padding=1).tanh()
        total = total + F.conv2d(a, mux.second[i], mux.second_bias[i], padding=1).tanh()
    torch.testing.assert_close(mux(IMAGES), total.flatten(1), atol=1e-4, rtol=1e-4)


def test_the_published_nonlinear_has_no_biases_and_starts_large():
    mux = build_multiplexer("nonlinear_8x_as_published", N, SIDE * SIDE)
    assert {name for name, _ in mux.named_parameters()} == {"first", "second"}
    assert mux.second.shape == (N, 8, 16, 3, 3)
    assert 0.95 < float(mux.second.detach().std()) < 1.05
    assert float(build_multiplexer("nonlinear_8x", N, SIDE * SIDE).second.detach().abs().max()) <= 1 / 12


def test_clear_errors():
    with pytest.raises(ValueError, match="square"):
        build_multiplexer("mosaic", N, 40)
    with pytest.raises(ValueError, match="images of shape"):
        build_multiplexer("random_kernel", N, 4)(torch.zeros(2, N, 3, 4))
