"""A picture a person understands: N digits, their mixture, and the N answers that one pass gives.

Each series is trained for it, then answers the same first groups of the test set. The record keeps the pixels, so that
the picture can be drawn again without training.
"""

from collections.abc import Sequence
from functools import partial
from statistics import fmean, pstdev
from typing import Any

import torch

from datamux.evaluate.plots import pyplot_without_window
from datamux.evaluate.records import make_record
from datamux.native.layer import switch
from datamux.reproduce.accuracy import ACCURACY, settings_of
from datamux.reproduce.runs import VERSION, Progress, Run, one_thread
from datamux.reproduce.series import Series
from datamux.tasks.images import SIDE, Images
from datamux.train.images import accuracy_by_slot, train_on_images

GROUPS = 3  # of the picture


def picture_record(
    chosen: Sequence[Series], data: Images, *, seed: int = 0, progress: Progress = lambda cost: None
) -> dict[str, Any]:
    """Train, and keep the first groups of the test set with what each network sees of them and answers."""
    (n,) = {n for series in chosen for n in series.sizes}
    images, labels = data.test_images[: GROUPS * n], data.test_labels[: GROUPS * n]
    groups: list[dict[str, Any]] = [
        {
            "digits": images[g * n : (g + 1) * n].mul(255).round().int().tolist(),
            "labels": labels[g * n : (g + 1) * n].tolist(),
            "seen": [],
        }
        for g in range(GROUPS)
    ]
    rows = []
    for series in chosen:
        with one_thread():
            model = series.network.build(n, dim=data.train_images.shape[1], seed=seed)
            switch(model, True)
            train_on_images(model, data, series.protocol, seed=seed, progress=partial(_tell, progress, series, n))
            switch(model, False)
            slots = accuracy_by_slot(model, data, seed=seed)
        with torch.inference_mode():
            mixtures = model.multiplexer(images.view(GROUPS, n, -1))
            answers = model(images).argmax(-1).view(GROUPS, n)
        for group, mixture, answer in zip(groups, mixtures, answers, strict=True):
            seen = {"mixture": mixture.mul(100).round().int().tolist(), "answers": answer.tolist()}
            group["seen"].append({"series": series.name, **seen})
        value, spread = round(100 * fmean(slots), 3), round(100 * pstdev(slots), 3)
        point = {"series": series.name, "n": n, "metric": ACCURACY}
        rows.append({**point, "value": value, "spread": spread, "seeds": 1, "paper": None})
    about = {"figure": "mnist-picture", "version": VERSION, "data": data.about()}
    return make_record("picture", recipe=settings_of(chosen), **about, rows=rows, results=groups)


def _tell(progress: Progress, series: Series, n: int, steps: int) -> None:
    progress(Run(series, n, 0).cost * steps / series.protocol.total)


def draw_picture(record: dict[str, Any]) -> Any:
    """One line a group, from left to right: its digits, then for every network the one mixture that it sees and its
    answers in turn.
    """
    pyplot = pyplot_without_window()
    groups, rows = record["results"], record["rows"]
    n = len(groups[0]["labels"])
    widths = [1.0] * n + ([0.5, 1.0, 0.5] + [0.4] * n) * len(rows)  # the halves hold arrows
    figure, grid = pyplot.subplots(
        len(groups),
        len(widths),
        figsize=(1.1 * sum(widths), 1.2 * len(groups) + 1),
        width_ratios=widths,
        squeeze=False,
        layout="constrained",
    )
    for axes in grid.flat:
        axes.set_axis_off()
    starts = [n + (n + 3) * number for number in range(len(rows))]  # of each network's part of a line
    for line, group in zip(grid, groups, strict=True):
        for axes, digit in zip(line, group["digits"], strict=False):
            axes.imshow(_square(digit), cmap="gray_r")
        for start, seen in zip(starts, group["seen"], strict=True):
            _write(line[start], "→" if start == starts[0] else "or")  # another network, given the same digits
            _draw_seen(line[start + 1 : start + n + 3], group["labels"], seen)
    for start, row in zip(starts, rows, strict=True):
        grid[0][start + 1].set_title(f"{row['series']}:\n{row['value']:.1f}% right", fontsize=8)
    count = f"{n} digits, one pass, {n} answers" if n > 1 else "one digit, one pass, one answer"
    figure.suptitle(f"{count}: {record['data']['source']}", fontsize=10)
    return figure


def _draw_seen(line: Any, labels: list[int], seen: dict[str, Any]) -> None:
    """A mixture, an arrow, the answers: right ones green, wrong ones red."""
    mixture, after, *places = line
    mixture.imshow(_square(seen["mixture"]), cmap="gray_r")
    _write(after, "→")
    for axes, label, answer in zip(places, labels, seen["answers"], strict=True):
        axes.set_box_aspect(2.5)  # as high as the pictures
        _write(axes, str(answer), "tab:green" if answer == label else "tab:red")


def _write(axes: Any, text: str, colour: str = "black") -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=16, color=colour)


def _square(pixels: list[int]) -> Any:
    """A row of pixels as an image; of a mixture with several maps the first."""
    return torch.tensor(pixels).view(-1, SIDE, SIDE)[0].numpy()
