"""A picture a person understands: N digits, their mixture, and the N answers that one pass gives.

The network is trained for it, then answers the first groups of the test set. The record keeps the pixels, so that the
picture can be drawn again without training.
"""

from statistics import fmean, pstdev
from typing import Any

import torch

from datamux.evaluate.plots import pyplot_without_window
from datamux.evaluate.records import make_record
from datamux.reproduce.runs import Progress, one_thread
from datamux.reproduce.series import Series
from datamux.tasks.images import SIDE, Images
from datamux.train.images import accuracy_by_slot, train_on_images

GROUPS = 3  # of the picture


def picture_record(
    series: Series, n: int, data: Images, *, seed: int = 0, progress: Progress = lambda cost: None
) -> dict[str, Any]:
    """Train, and keep the first groups of the test set with their mixtures and answers."""
    with one_thread():
        model = series.network.build(n, dim=data.train_images.shape[1], seed=seed)
        train_on_images(model, data, series.protocol, seed=seed, progress=progress)
        slots = accuracy_by_slot(model, data, seed=seed)
    images, labels = data.test_images[: GROUPS * n], data.test_labels[: GROUPS * n]
    with torch.inference_mode():
        mixtures = model.multiplexer(images.view(GROUPS, n, -1))
        answers = model(images).argmax(-1)
    row = {
        "series": series.name,
        "n": n,
        "metric": "accuracy, %",
        "value": round(100 * fmean(slots), 3),
        "spread": round(100 * pstdev(slots), 3),
        "seeds": 1,
        "paper": None,
    }
    groups = [
        {
            "digits": images[g * n : (g + 1) * n].mul(255).round().int().tolist(),
            "labels": labels[g * n : (g + 1) * n].tolist(),
            "mixture": mixtures[g].mul(100).round().int().tolist(),
            "answers": answers[g * n : (g + 1) * n].tolist(),
        }
        for g in range(GROUPS)
    ]
    settings = {series.name: series.as_dict()}
    return make_record(
        "picture", recipe=settings, figure="mnist-picture", data=data.about(), rows=[row], results=groups
    )


def draw_picture(record: dict[str, Any]) -> Any:
    """One line a group, from left to right: its digits, the one mixture that the network sees, the answers in turn."""
    pyplot = pyplot_without_window()
    groups = record["results"]
    n = len(groups[0]["labels"])
    widths = [1.0] * n + [0.5, 1.0, 0.5] + [0.4] * n  # the halves hold arrows
    figure, grid = pyplot.subplots(
        len(groups),
        len(widths),
        figsize=(1.1 * sum(widths), 1.2 * len(groups) + 0.8),
        width_ratios=widths,
        squeeze=False,
        layout="constrained",
    )
    for line, group in zip(grid, groups, strict=True):
        for axes in line:
            axes.set_axis_off()
        for axes, digit in zip(line, group["digits"], strict=False):
            axes.imshow(_square(digit), cmap="gray_r")
        line[n + 1].imshow(_square(group["mixture"]), cmap="gray")
        for arrow in (line[n], line[n + 2]):
            arrow.text(0.5, 0.5, "→", ha="center", va="center", fontsize=16)
        for axes, label, answer in zip(line[n + 3 :], group["labels"], group["answers"], strict=True):
            colour = "tab:green" if answer == label else "tab:red"
            axes.set_box_aspect(1 / widths[-1])  # as high as the pictures
            axes.text(0.5, 0.5, str(answer), ha="center", va="center", fontsize=16, color=colour)
    for place, title in ((0, f"{n} digits"), (n + 1, "the network sees"), (n + 3, "its answers")):
        grid[0][place].set_title(title, fontsize=8, loc="left" if place != n + 1 else "center")
    row = record["rows"][0]
    right = f"{row['series']}: {row['value']:.1f}% right on {record['data']['source']}"
    figure.suptitle(f"{n} digits, one pass, {n} answers ({right})", fontsize=10)
    return figure


def _square(pixels: list[int]) -> Any:
    """A row of pixels as an image; of a mixture with several maps the first."""
    return torch.tensor(pixels).view(-1, SIDE, SIDE)[0].numpy()
