"""The paper's protocol number by number, and how slots are scored."""

import dataclasses

import pytest
import torch
from torch import nn

from datamux.vision.digits import Images
from datamux.vision.networks import ImageNetwork
from datamux.vision.training import PAPER, Protocol, accuracy_by_slot, loss_of, train_on_images


def made_up(train: int = 24, test: int = 11) -> Images:
    """Images of class c: pixel c is one."""
    labels = [torch.arange(count) % 10 for count in (train, test)]
    images = [torch.eye(400)[label] for label in labels]
    return Images(images[0], labels[0], images[1], labels[1], "made up", "memory")


def test_the_papers_protocol():
    assert dataclasses.asdict(PAPER) == {
        "loss": "squared",
        "optimiser": "sgd",
        "rate": 0.1,
        "schedule": "fixed",
        "weight_decay": 0.0,
        "groups": 32,
        "steps": 1875,  # times 32 is 60,000
        "epochs": 15,
    }


@pytest.mark.parametrize(
    ("backbone", "shapes"),
    [
        ("mlp", [(100, 400), (100,), (3, 100, 20), (3, 20), (10, 20), (10,)]),
        (
            "cnn",
            [
                *[(10, 1, 3, 3), (10,), (16, 10, 4, 4), (16,), (120, 144), (120,), (84, 120), (84,)],
                *[(3, 84, 84), (3, 84), (10, 84), (10,)],
            ],
        ),
    ],
)
def test_the_papers_networks(backbone, shapes):
    network = ImageNetwork(backbone, "identity").build(3)
    assert [tuple(p.shape) for p in network.parameters()] == shapes
    assert network.multiplexer.scale == "sum"
    x = torch.rand(6, 400)
    assert float(network(x).detach().abs().max()) < 1, "a tanh follows the readout"
    torch.testing.assert_close(network.multiplexer(x.view(2, 3, 400)), x.view(2, 3, 400).sum(1))


def test_the_squared_error_is_summed_over_slots():
    out, labels = torch.randn(8, 10), torch.randint(10, (8,))
    target = -torch.ones(8, 10)
    target[torch.arange(8), labels] = 1
    slots = [(0.5 * (target[i::4] - out[i::4]) ** 2).mean() for i in range(4)]
    torch.testing.assert_close(loss_of(out, labels, 4, PAPER), sum(slots))


def test_one_step_is_plain_gradient_descent():
    data = made_up()
    network = ImageNetwork("mlp", "ortho").build(2)
    before = [p.detach().clone() for p in network.parameters()]
    rows = torch.randint(24, (64,), generator=torch.Generator().manual_seed(5))
    loss = loss_of(network(data.train_images[rows]), data.train_labels[rows], 2, PAPER)
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    train_on_images(network, data, Protocol(steps=1, epochs=1), seed=5)
    for old, gradient, new in zip(before, gradients, network.parameters(), strict=True):
        torch.testing.assert_close(new.detach(), old - 0.1 * gradient)


def test_the_rate_rises_and_falls():
    rates = []
    network = nn.Sequential(nn.Linear(400, 10))
    protocol = Protocol(loss="cross_entropy", optimiser="adamw", rate=0.5, schedule="cosine", steps=100, epochs=1)
    original = torch.optim.AdamW.step

    def step(self, *arguments):
        rates.append(self.param_groups[0]["lr"])
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", step)
        train_on_images(network, made_up(), protocol)
    assert len(rates) == 100
    assert max(rates) == 0.5
    assert rates[0] == 0.25
    assert rates[-1] < 0.001
    assert rates[2:] == sorted(rates[2:], reverse=True)


def test_progress_counts_every_step():
    told = []
    network = nn.Linear(400, 10)
    train_on_images(network, made_up(), Protocol(steps=30, epochs=2), progress=told.append)
    assert sum(told) == 60


class OnlySlot(nn.Module):
    """Answers rightly in one slot, and never elsewhere."""

    def __init__(self, n: int, slot: int) -> None:
        super().__init__()
        self.n, self.slot, self.rows = n, slot, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows += len(x)
        right = x[:, :10]
        here = torch.arange(len(x)) % self.n == self.slot
        return torch.where(here[:, None], right, right.roll(1, 1))


def test_the_whole_test_set_is_answered_in_every_slot(monkeypatch):
    monkeypatch.setattr("datamux.vision.training.Multiplexed", OnlySlot)
    data = made_up(test=11)  # no multiple of 3: the last group is incomplete
    for slot in range(3):
        model = OnlySlot(3, slot)
        model.num_instances = 3
        assert accuracy_by_slot(model, data, rows=4) == [float(i == slot) for i in range(3)]
        assert model.rows == 33, "each of the 11 images three times"


class Sits(nn.Module):
    """Notes in which slot each image was."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.num_instances, self.seen = n, []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += [(int(image), row % self.num_instances) for row, image in enumerate(x.argmax(1))]
        return x[:, :10]


def test_every_image_sits_in_every_slot_once_where_n_divides_their_number(monkeypatch):
    monkeypatch.setattr("datamux.vision.training.Multiplexed", Sits)
    model = Sits(5)
    accuracy_by_slot(model, made_up(test=10), rows=4)
    assert sorted(model.seen) == [(image, slot) for image in range(10) for slot in range(5)]


def test_principal_components_are_those_of_the_training_images():
    data = made_up(train=200)
    data = dataclasses.replace(data, train_images=torch.rand(200, 400, generator=torch.Generator().manual_seed(0)))
    model = ImageNetwork("mlp", "principal").build(8)
    before = model.multiplexer.reduce.clone()
    train_on_images(model, data, Protocol(steps=1, epochs=1))
    centred = data.train_images - data.train_images.mean(0)
    kept = (centred @ model.multiplexer.reduce[3]).square().sum()
    most = torch.linalg.svdvals(centred)[:50].square().sum()  # of any 50 directions
    torch.testing.assert_close(kept, most, rtol=1e-3, atol=0)
    assert (centred @ before[3]).square().sum() < 0.9 * most


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_identity_for_one_image_is_the_plain_network(backbone):
    network = ImageNetwork(backbone, "identity")
    mixed, plain = network.build(1), network.build_plain()
    own = [p.data for p in mixed.parameters()]
    own[-4:-2] = [own[-4][0].T, own[-3][0]]  # the demultiplexer's only slot
    for parameter, value in zip(plain.parameters(), own, strict=True):
        parameter.data.copy_(value)
    x = torch.rand(3, 400)
    torch.testing.assert_close(mixed(x), plain(x))


@pytest.mark.parametrize(("name", "maps"), [("ortho", 1), ("tiles", 1), ("tiles_8x", 8), ("nonlinear_4x", 4)])
def test_how_large_a_mixture_is(name, maps):
    network = ImageNetwork("cnn", name)
    assert network.maps == maps == getattr(network.build(2).multiplexer, "maps", 1)


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match=r"loss 'square'.*squared"):
        Protocol(loss="square")
    with pytest.raises(ValueError, match="epochs must be"):
        Protocol(epochs=0)
    with pytest.raises(ValueError, match=r"backbone 'cmm'.*cnn"):
        ImageNetwork("cmm", "ortho")


def test_a_corrected_network_knows_its_published_one():
    published = ImageNetwork("cnn", "nonlinear_8x_as_published")
    assert ImageNetwork("cnn", "nonlinear_8x").corrects(published)
    for other in (
        published,
        ImageNetwork("cnn", "nonlinear"),  # other maps
        ImageNetwork("cnn", "tiles_8x"),
        ImageNetwork("cnn", "nonlinear_8x", tanh_readout=False),
    ):
        assert not other.corrects(published)
    assert not ImageNetwork("cnn", "nonlinear_8x").corrects(ImageNetwork("cnn", "nonlinear_8x"))
