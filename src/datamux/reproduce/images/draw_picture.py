"""A picture that a person understands: N digits, their mixture, and the N answers that one pass gives."""

from typing import Any

import torch

from datamux.evaluate.plots import pyplot_without_window
from datamux.vision.digits import SIDE


def draw_picture(record: dict[str, Any]) -> Any:
    """One line per group, from left to right: its digits, then for every network the mixture that it sees and its
    answers.
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
    """A row of pixels as an image; of a mixture with several maps, the first map."""
    return torch.tensor(pixels).view(-1, SIDE, SIDE)[0].numpy()
