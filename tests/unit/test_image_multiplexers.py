"""Image multiplexers against what they say they do, on pictures small enough to check by eye."""

import pytest
import torch
from torch.nn import functional as F

from datamux import Multiplexed, build_demultiplexer, build_multiplexer
from datamux.multiplexers import IMAGE_MULTIPLEXERS
from datamux.multiplexers.for_images.principal import slow_waves
from datamux.multiplexers.for_images.tiles import shrink
from datamux.vision.networks import DigitCnn, Readout

N, SIDE = 4, 20
WITHOUT_CHANCE = ("rotation", "rotation_as_published", "mosaic", "mosaic_as_published", "learned_mosaic")
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


def test_the_published_rotation_differs_by_its_scaling_alone():
    n = 8  # turns by an eighth need interpolation
    images = torch.rand(3, n, SIDE * SIDE, generator=torch.Generator().manual_seed(4))
    scaled = images * (1 - 2 * torch.arange(n))[:, None]
    published = build_multiplexer("rotation_as_published", n, SIDE * SIDE)(images)
    torch.testing.assert_close(published, build_multiplexer("rotation", n, SIDE * SIDE)(scaled), atol=1e-3, rtol=1e-4)


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


@pytest.mark.parametrize("name", IMAGE_MULTIPLEXERS)
def test_an_empty_slot_adds_nothing(name):
    mux = build_multiplexer(name, N, SIDE * SIDE)
    used = torch.tensor([[True, True, False, False]]).expand(3, N)
    torch.testing.assert_close(mux(IMAGES, used), mux(IMAGES[:, :2]), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", IMAGE_MULTIPLEXERS)
def test_seed_and_dtype(name):
    first, again, other = (build_multiplexer(name, N, SIDE * SIDE, seed=seed) for seed in (7, 7, 8))
    assert first.state_dict().keys() == again.state_dict().keys()
    for key, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[key])
    torch.testing.assert_close(first(IMAGES), again(IMAGES), atol=0, rtol=0)
    same = torch.equal(first(IMAGES), other(IMAGES))
    assert same == (name in WITHOUT_CHANCE), "the seed changes what is drawn at random, and nothing else"
    doubled = build_multiplexer(name, N, SIDE * SIDE, seed=7).double()(IMAGES.double())
    assert doubled.dtype == torch.float64
    torch.testing.assert_close(doubled.float(), first(IMAGES), atol=1e-4, rtol=1e-4)
    halved = build_multiplexer(name, N, SIDE * SIDE, seed=7).bfloat16()(IMAGES.bfloat16())
    assert halved.dtype == torch.bfloat16
    assert halved.isfinite().all()


@pytest.mark.parametrize("name", IMAGE_MULTIPLEXERS)
def test_save_and_load(name, tmp_path):
    saved, other = (build_multiplexer(name, N, SIDE * SIDE, seed=seed) for seed in (0, 1))
    torch.save(saved.state_dict(), tmp_path / "weights.pt")
    other.load_state_dict(torch.load(tmp_path / "weights.pt"))
    assert torch.equal(other(IMAGES), saved(IMAGES))


@pytest.mark.parametrize("name", IMAGE_MULTIPLEXERS)
def test_gradients_reach_the_images_and_every_parameter(name):
    mux = build_multiplexer(name, N, SIDE * SIDE)
    images = IMAGES.clone().requires_grad_()
    mux(images).square().sum().backward()
    learned = dict(mux.named_parameters())
    assert bool(learned) == name.startswith(("learned", "nonlinear", "tiles"))
    for what, x in {"images": images, **learned}.items():
        assert x.grad is not None, what
        assert x.grad.isfinite().all(), what
        assert x.grad.any(), what


def test_principal_components_lie_in_subspaces_of_their_own():
    mux = build_multiplexer("principal", N, SIDE * SIDE)
    x = IMAGES.flatten(0, 1)
    basis = torch.rand(6, SIDE * SIDE, generator=torch.Generator().manual_seed(1))
    pictures = torch.rand(500, 6, generator=torch.Generator().manual_seed(2)) @ basis  # of rank 6
    mux.fit(pictures)
    centred = pictures - pictures.mean(0)
    for i in range(N):
        kept = centred @ mux.reduce[i]
        torch.testing.assert_close(kept.norm(), centred.norm(), rtol=1e-3, atol=0)  # nothing is lost
        assert kept[:, 6:].abs().max() < 1e-2, "the leading components come first"
    place = mux.place.flatten(0, 1)
    torch.testing.assert_close(place @ place.T, torch.eye(len(place)), atol=1e-4, rtol=0)
    assert not list(mux.parameters())
    learned = build_multiplexer("learned_principal", 16, SIDE * SIDE)
    assert learned.rank == 25
    assert {name for name, _ in learned.named_parameters()} == {"reduce", "place"}
    assert mux(x.view(3, N, -1)).shape == (3, SIDE * SIDE)


def test_slow_waves_are_an_orthonormal_basis_with_the_mean_first():
    waves = slow_waves(5)
    torch.testing.assert_close(waves.T @ waves, torch.eye(25, dtype=torch.float64))
    torch.testing.assert_close(waves[:, 0], torch.full((25,), 0.2, dtype=torch.float64))
    assert (waves[:, 1:].sum(0).abs() < 1e-9).all()


def test_tiles_hold_one_image_each():
    mux = build_multiplexer("tiles_8x", 5, SIDE * SIDE)
    images = torch.rand(2, 5, SIDE * SIDE, generator=torch.Generator().manual_seed(3))
    before = mux(images).view(2, 8, SIDE, SIDE)
    assert mux.tile == 6
    images[:, 4] = 0.3
    changed = (mux(images).view(2, 8, SIDE, SIDE) - before).abs() > 1e-7
    assert changed[:, :, 6:12, 6:12].any((0, 1)).all(), "the fifth image stands in the middle"
    changed[:, :, 6:12, 6:12] = False
    assert not changed.any()


@pytest.mark.parametrize("size", [1, 5, 6, 10])
def test_shrinking_is_average_pooling(size):
    images = torch.rand(3, 2, 10, 10, generator=torch.Generator().manual_seed(4))
    assert torch.allclose(shrink(images, size), F.adaptive_avg_pool2d(images, size), atol=1e-6)


def test_clear_errors():
    with pytest.raises(ValueError, match="square"):
        build_multiplexer("mosaic", N, 40)
    with pytest.raises(ValueError, match="images of shape"):
        build_multiplexer("random_kernel", N, 4)(torch.zeros(2, N, 3, 4))
