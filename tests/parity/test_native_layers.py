"""The layers in C++ give what torch's give, there and back, and are left out where they cannot be had."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from datamux.multiplexers import build_multiplexer
from datamux.multiplexers.images import Nonlinear
from datamux.native import build
from datamux.native.layer import blocked, fits, layer, switch, unblocked
from datamux.native.nonlinear import nonlinear
from datamux.native.shrink import shrink_blocked
from datamux.reproduce.figures import FIGURES
from datamux.reproduce.runs import Run, finished, perform
from datamux.tasks.images import Images
from datamux.train.image_networks import ImageNetwork
from datamux.train.images import train_on_images

# in maps, out maps, kernel, side, padding, stride, pool, squash, bias: those that are used, and odd ones
SHAPES = [
    (1, 10, 3, 20, 0, 1, True, True, True),
    (10, 16, 4, 9, 0, 1, True, True, True),
    (8, 10, 3, 20, 0, 1, True, True, True),
    (1, 16, 3, 20, 1, 1, False, True, False),
    (16, 8, 3, 20, 1, 1, False, True, True),
    (16, 4, 3, 20, 1, 1, False, True, False),
    (16, 1, 3, 20, 1, 1, False, True, True),
    (5, 1, 3, 20, 1, 1, False, False, False),
    (1, 16, 5, 20, 2, 2, False, True, True),
    (16, 8, 3, 6, 1, 1, False, False, True),
    (3, 7, 5, 11, 1, 1, True, False, True),
    (2, 3, 4, 10, 3, 1, False, True, True),
]


@pytest.mark.compiled
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_layer_is_torchs(shape):
    in_maps, out_maps, kernel, side, padding, stride, pool, squash, with_bias = shape
    torch.manual_seed(0)
    # Not the first layer of a network: what comes in has a gradient, too, where there is a way back to it.
    x = torch.randn(16, in_maps, side, side, requires_grad=stride == 1)
    weight = (0.3 * torch.randn(out_maps, in_maps, kernel, kernel)).requires_grad_()
    bias = torch.randn(out_maps, requires_grad=True) if with_bias else None
    z = F.conv2d(x, weight, bias, stride=stride, padding=padding)
    expected = F.max_pool2d(z, 2) if pool else z
    expected = expected.tanh() if squash else expected
    found = unblocked(layer(blocked(x), weight, bias, padding=padding, stride=stride, pool=pool, squash=squash))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    learned = [tensor for tensor in (x, weight, bias) if tensor is not None and tensor.requires_grad]
    grad = torch.randn_like(expected)
    for ours, theirs in zip(
        torch.autograd.grad(found, learned, grad), torch.autograd.grad(expected, learned, grad), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-4 * float(theirs.abs().max()), rtol=1e-4)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("n", "maps", "published", "side"),
    [(3, 1, True, 20), (3, 1, False, 20), (2, 4, False, 20), (5, 8, True, 20), (1, 3, False, 7)],
)
def test_nonlinear_multiplexing_is_torchs(n, maps, published, side):
    torch.manual_seed(0)
    multiplexer = Nonlinear(n, side**2, maps=maps, published=published)
    images = torch.rand(16, n, side**2)
    grad = torch.randn(16, maps * side**2)
    found = []
    for native in (False, True):
        multiplexer.native = native
        multiplexer.zero_grad()
        mixture = multiplexer(images)
        mixture.backward(grad)
        found.append([mixture.detach(), *(p.grad for p in multiplexer.parameters())])
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5 * theirs.abs().max().item(), rtol=0)


@pytest.mark.compiled
def test_nonlinear_multiplexing_refuses_what_it_cannot_do():
    images, first, second = torch.rand(8, 2, 20, 20), torch.rand(2, 16, 1, 3, 3), torch.rand(2, 1, 16, 3, 3)
    for message, given in {
        r"first must be \(3, 16, 1, 3, 3\)": (torch.rand(8, 3, 20, 20), first, None, second, None),
        "groups of 8 in single precision": (images[:5], first, None, second, None),
        "first must be of single precision": (images, first.double(), None, second, None),
        r"first_bias must be \(2, 16\)": (images, first, torch.rand(2, 15), second, None),
        "second_bias must be of single precision": (images, first, None, second, torch.rand(2, 1).half()),
    }.items():
        with pytest.raises(ValueError, match=message):
            nonlinear(*given)
    with pytest.raises(ValueError, match="no gradient"):
        nonlinear(images.requires_grad_(), first, None, second, None).sum().backward()


@pytest.mark.compiled
@pytest.mark.parametrize(("side", "size"), [(10, 5), (10, 6), (10, 10), (10, 20), (7, 1), (9, 4)])
def test_shrinking_is_torchs(side, size):
    torch.manual_seed(0)
    x = torch.randn(16, 3, side, side, requires_grad=True)
    expected = F.adaptive_avg_pool2d(x, size)
    found = unblocked(shrink_blocked(blocked(x), size))
    torch.testing.assert_close(found, expected)
    grad = torch.randn_like(expected)
    (ours,), (theirs,) = (torch.autograd.grad(some, x, grad) for some in (found, expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.compiled
@pytest.mark.parametrize(("shape", "size"), [((1, 1, 5, 5, 8), 0), ((1, 1, 5, 5, 4), 3), ((1, 1, 5, 6, 8), 3)])
def test_shrinking_refuses_what_it_cannot_do(shape, size):
    with pytest.raises(ValueError, match="expected square maps in blocks of 8"):
        shrink_blocked(torch.zeros(shape), size)


@pytest.mark.compiled
@pytest.mark.parametrize("n", [1, 2, 9])
def test_tiles_are_torchs_at_every_size(n):
    torch.manual_seed(0)
    multiplexer = build_multiplexer("tiles", n, 400)
    images = torch.rand(8, n, 400)
    expected = multiplexer(images)
    multiplexer.native = True
    torch.testing.assert_close(multiplexer(images), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.compiled
def test_tanh_over_its_whole_range():
    x = torch.cat([torch.linspace(-30, 30, 7992), torch.tensor([0.0, 1e-8, -1e-4, 88.0, -200.0, 1e30, -1e30, 9.0])])
    kernel = torch.zeros(1, 1, 3, 3)
    kernel[0, 0, 1, 1] = 1
    found = unblocked(layer(blocked(x.view(-1, 1, 1, 1)), kernel, padding=1)).flatten()
    torch.testing.assert_close(found, x.tanh(), atol=3e-7, rtol=0)


@pytest.mark.compiled
@pytest.mark.parametrize("figure", ["mnist-cnn", "mnist-cnn-kernels", "mnist-beaten"])
def test_a_network_learns_the_same(figure):
    """After five steps with every multiplexer that a figure has, with and without."""
    torch.manual_seed(0)
    data = made_up()
    seen = set()
    for series in FIGURES[figure].series:
        if series.network.backbone == "mlp" or series.network.multiplexer in seen:
            continue
        seen.add(series.network.multiplexer)
        answers = []
        for native in (False, True):
            model = series.network.build(4)
            assert switch(model, native) == native
            train_on_images(model, data, replace(series.protocol, groups=16, steps=5, epochs=1))
            switch(model, False)
            with torch.inference_mode():
                answers.append(model(data.test_images))
        torch.testing.assert_close(*answers, atol=2e-5, rtol=1e-3, msg=lambda text, s=series: f"{s.name}: {text}")


@pytest.mark.compiled
def test_a_run_says_that_it_was_native(tmp_path):
    series = FIGURES["mnist-cnn"].series[0]
    run = Run(replace(series, protocol=replace(series.protocol, groups=8, steps=2, epochs=1)), 2, 0)
    perform(run, tmp_path, made_up(), {})
    assert finished(run, tmp_path, made_up())["result"]["native"] is True


def made_up() -> Images:
    generator = torch.Generator().manual_seed(1)
    images = [torch.rand(count, 400, generator=generator) for count in (60, 24)]
    labels = [torch.arange(count) % 10 for count in (60, 24)]
    return Images(images[0], labels[0], images[1], labels[1], "made up", "memory")


def test_a_compiler_may_have_arguments(monkeypatch):
    there = {"c++": "/bin/c++", "/my tools/g++": "/my tools/g++"}
    monkeypatch.setattr(build.shutil, "which", there.get)
    for named, found in {
        "ccache g++ -m64": ["ccache", "g++", "-m64"],
        "/my tools/g++": ["/my tools/g++"],
        "": ["/bin/c++"],
    }.items():
        monkeypatch.setenv("CXX", named)
        assert build._compiler() == found
    there.clear()
    assert build._compiler() == []


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false", 'g++ "never closed'])
def test_without_a_compiler_torch_does_it(compiler, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", compiler)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build.library.cache_clear()
    try:
        model = ImageNetwork("cnn", "nonlinear").build(2)
        assert switch(model, True) is False
        assert not model.multiplexer.native
        assert model(torch.rand(16, 400)).shape == (16, 10)
        with pytest.raises(RuntimeError, match="need a C\\+\\+ compiler"):
            layer(torch.zeros(1, 1, 5, 5, 8), torch.zeros(1, 1, 3, 3))
    finally:
        build.library.cache_clear()


@pytest.mark.parametrize(
    ("maps", "weight", "options", "message"),
    [
        ((1, 1, 5, 5, 4), (1, 1, 3, 3), {}, "blocks of 8"),
        ((1, 1, 5, 5, 8), (1, 1, 2, 2), {}, "kernels must be"),
        ((1, 1, 5, 5, 8), (1, 1, 3, 3), {"padding": 3}, "larger than the padding"),
        ((1, 3, 5, 5, 8), (4, 2, 3, 3), {}, "do not fit 3 maps"),
        ((1, 1, 2, 2, 8), (1, 1, 3, 3), {}, "do not fit into"),
    ],
)
def test_what_does_not_fit_is_refused(maps, weight, options, message):
    with pytest.raises(ValueError, match=message):
        layer(torch.zeros(maps), torch.zeros(weight), **options)


def test_what_fits():
    assert fits(torch.zeros(16, 400))
    assert not fits(torch.zeros(12, 400))
    assert not fits(torch.zeros(16, 400, dtype=torch.float64))
    assert not fits(torch.zeros(16, 400, device="meta"))
