"""The quick way to train the paper's CNN gives the weights that torch's gives, and is taken only where it may be."""

from dataclasses import replace

import pytest
import torch

from datamux.multiplexers.images import Rotation
from datamux.native.layer import switch
from datamux.native.step import Steps
from datamux.tasks.images import Images
from datamux.train import quick_steps
from datamux.train.image_networks import ImageNetwork
from datamux.train.images import PAPER, train_on_images
from datamux.train.quick_steps import QuickSteps, _weights

MULTIPLEXERS = (
    *("identity", "ortho", "low_rank", "rotation", "rotation_as_published", "mosaic", "mosaic_as_published"),
    *("principal", "learned_ortho", "tiles"),
    *("random_kernel", "learned_kernel", "nonlinear_as_published", "nonlinear", "nonlinear_4x", "nonlinear_8x"),
)


def made_up(count: int = 200) -> Images:
    generator = torch.Generator().manual_seed(1)
    images, labels = torch.rand(count, 400, generator=generator), torch.arange(count) % 10
    return Images(images, labels, images[:20], labels[:20], "made up", "memory")


def trained(network: ImageNetwork, n: int, *, native: bool, groups: int = 32, steps: int = 12, **how):
    model = network.build(n)
    switch(model, native)
    train_on_images(model, made_up(), replace(PAPER, groups=groups, steps=steps, epochs=1, **how))
    return model


def counted(monkeypatch) -> list[int]:
    """The steps that are made the quick way from now on, one entry each."""
    calls: list[int] = []
    as_ever = Steps.__call__

    def counting(self, *args, **options):
        calls.append(1)
        return as_ever(self, *args, **options)

    monkeypatch.setattr(Steps, "__call__", counting)
    return calls


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("multiplexer", "n", "groups"),
    [*((name, 4, 32) for name in MULTIPLEXERS), ("identity", 1, 32), ("ortho", 16, 8), ("nonlinear_8x", 3, 40)],
)
def test_every_weight_is_torchs(multiplexer, n, groups, monkeypatch):
    calls = counted(monkeypatch)
    network = ImageNetwork("cnn", multiplexer)
    start, slow, quick = (
        network.build(n),
        trained(network, n, native=False, groups=groups),
        trained(network, n, native=True, groups=groups),
    )
    assert len(calls) == 12
    for (name, before), theirs, ours in zip(
        start.named_parameters(), slow.parameters(), quick.parameters(), strict=True
    ):
        moved = (theirs - before).abs().max().item()
        assert moved > 0, name
        torch.testing.assert_close(
            ours, theirs, atol=max(2e-3 * moved, 2e-7), rtol=0, msg=lambda t, name=name: f"{name}: {t}"
        )
        assert ours.stride() == theirs.stride(), name  # convolutions keep their layout


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("network", "groups", "how"),
    [
        (ImageNetwork("mlp", "ortho"), 32, {}),
        (ImageNetwork("cnn", "ortho", tanh_readout=False), 32, {}),
        (ImageNetwork("cnn", "ortho", {}, {"layers": 2, "activation": "tanh"}), 32, {}),
        (ImageNetwork("cnn", "ortho", {}, {"layers": 1, "activation": "gelu"}), 32, {}),
        (ImageNetwork("cnn", "ortho"), 12, {}),
        (ImageNetwork("cnn", "ortho"), 32, {"optimiser": "adamw"}),
        (ImageNetwork("cnn", "ortho"), 32, {"loss": "cross_entropy"}),
        (ImageNetwork("cnn", "ortho"), 32, {"weight_decay": 0.1}),
        (ImageNetwork("cnn", "ortho"), 32, {"schedule": "cosine"}),
    ],
)
def test_anything_else_is_trained_by_torch(network, groups, how, monkeypatch):
    calls = counted(monkeypatch)
    trained(network, 2, native=True, groups=groups, steps=1, **how)
    assert not calls


@pytest.mark.compiled
def test_another_rate_is_heeded(monkeypatch):
    calls = counted(monkeypatch)
    network = ImageNetwork("cnn", "identity")
    slow, quick = (trained(network, 2, native=native, rate=0.02) for native in (False, True))
    assert calls
    for theirs, ours in zip(slow.parameters(), quick.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


@pytest.mark.compiled
@pytest.mark.parametrize("part", ["backbone", "multiplexer", "demultiplexer", "head"])
def test_what_is_frozen_stays_as_it_is(part, monkeypatch):
    calls = counted(monkeypatch)
    model = ImageNetwork("cnn", "learned_kernel").build(2)
    frozen = getattr(model, part).requires_grad_(False)
    before = [p.clone() for p in frozen.parameters()]
    switch(model, True)
    train_on_images(model, made_up(), replace(PAPER, steps=2, epochs=1))
    assert not calls
    assert all(torch.equal(p, q) for p, q in zip(frozen.parameters(), before, strict=True))


@pytest.mark.compiled
def test_half_empty_groups_are_trained_by_torch(monkeypatch):
    calls = counted(monkeypatch)
    model = ImageNetwork("cnn", "ortho").build(4)
    switch(model, True)
    model.group_size = 2
    train_on_images(model, made_up(), replace(PAPER, steps=1, epochs=1))
    assert not calls


@pytest.mark.compiled
def test_other_numbers_are_trained_by_torch(monkeypatch):
    calls = counted(monkeypatch)
    data = made_up()
    model = ImageNetwork("cnn", "ortho").build(2).double()
    switch(model, True)
    exact = replace(data, train_images=data.train_images.double(), test_images=data.test_images.double())
    train_on_images(model, exact, replace(PAPER, steps=1, epochs=1))
    assert not calls


@pytest.mark.compiled
def test_labels_that_there_are_not_are_an_error():
    data = made_up()
    model = ImageNetwork("cnn", "ortho").build(2)
    switch(model, True)
    with pytest.raises(IndexError):
        train_on_images(model, replace(data, train_labels=data.train_labels + 5), replace(PAPER, steps=1, epochs=1))


@pytest.mark.compiled
def test_fewer_images_than_slots(monkeypatch):
    calls = counted(monkeypatch)
    for native in (False, True):
        model = ImageNetwork("cnn", "rotation").build(16)
        switch(model, native)
        train_on_images(model, made_up(10), replace(PAPER, steps=2, epochs=1))
    assert len(calls) == 2


@pytest.mark.compiled
def test_an_interrupted_training_keeps_what_was_learned():
    """What lies on both sides of the mixture, not one of them."""

    def stop(steps: int) -> None:
        raise KeyboardInterrupt

    model, start = (ImageNetwork("cnn", "learned_kernel").build(2) for _ in range(2))
    switch(model, True)
    with pytest.raises(KeyboardInterrupt):
        train_on_images(model, made_up(), replace(PAPER, steps=100, epochs=1), progress=stop)
    for (name, now), before in zip(model.named_parameters(), start.parameters(), strict=True):
        assert not torch.equal(now, before), name


@pytest.mark.compiled
def test_a_table_has_its_limit(monkeypatch):
    monkeypatch.setattr(quick_steps, "LARGEST", 1000)
    model = ImageNetwork("cnn", "rotation").build(2)
    switch(model, True)
    data = made_up()
    assert QuickSteps(model, data.train_images, data.train_labels, 0.1).table is None


@pytest.mark.compiled
def test_what_does_not_add_up_gets_no_table():
    model = ImageNetwork("cnn", "rotation").build(3)
    switch(model, True)
    data = made_up()
    assert QuickSteps(model, data.train_images, data.train_labels, 0.1).table is not None

    class Squared(Rotation):
        def mix_images(self, images, used):
            return super().mix_images(images**2, used)

    model.multiplexer = Squared(3, 400)
    steps = QuickSteps(model, data.train_images, data.train_labels, 0.1)
    assert steps.table is None
    rows = torch.arange(24)
    torch.testing.assert_close(steps.mixed(rows), model.multiplexer(data.train_images[:24].view(8, 3, 400)))


@pytest.mark.compiled
@pytest.mark.parametrize(("mixture", "labels"), [((8, 399), 16), ((8, 400), 15), ((12, 400), 24)])
def test_what_does_not_fit_is_refused(mixture, labels):
    steps = Steps(_weights(ImageNetwork("cnn", "identity").build(2)), 0.1)
    with pytest.raises(ValueError, match="expected mixtures of 400 numbers in eights and 2 labels each"):
        steps(torch.zeros(mixture), torch.zeros(labels, dtype=torch.long), backward=False)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("third", (120, 100), "third must be"),
        ("fourth_bias", (3,), "fourth_bias must be"),
        ("readout", (10, 7), "readout must be"),
        ("second", (16, 10, 3, 3), "second must be"),
    ],
)
def test_other_layers_are_refused(name, shape, message):
    weights = _weights(ImageNetwork("cnn", "identity").build(2))
    with pytest.raises(ValueError, match=message):
        Steps(weights | {name: torch.zeros(shape)}, 0.1)
