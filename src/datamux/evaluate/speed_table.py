"""The ratios of a speed record as columns: to the baseline on the same engine, and to the first row."""

from collections.abc import Sequence
from typing import Any

Rows = Sequence[dict[str, Any]]


def against_first(rows: Rows) -> list[float]:
    """Each row's ratio to the first row: its ratio to the baseline on its engine, times that baseline's."""
    baseline = {row["about"]["engine"]: row["ratio"] for row in rows if is_baseline(row)}
    return [row["ratio"] * (1.0 if is_baseline(row) else baseline[row["about"]["engine"]]) for row in rows]


def is_baseline(row: dict[str, Any]) -> bool:
    """Whether the other rows of the same engine are compared with this one."""
    return bool(row["name"] == f"plain, {row['about']['engine']}")


def ratio_titles(rows: Rows) -> list[str]:
    more = [f"against {rows[0]['name']}"] if _several(rows) else []
    return ["against plain, same engine (lowest to highest)", *more]


def ratio_cells(rows: Rows) -> list[list[str]]:
    """The cells of each row below `ratio_titles`."""
    cells = []
    for row, first in zip(rows, against_first(rows), strict=True):
        measured = f"{row['ratio']:.2f}x ({row['lowest']:.2f} to {row['highest']:.2f})"
        if not _several(rows):
            cells.append([measured])
        else:
            cells.append(["", measured] if is_baseline(row) else [measured, f"{first:.2f}x"])
    return cells


def speed_table(rows: Rows) -> tuple[list[str], list[list[str]]]:
    """The titles and the cells of a whole speed record. "Of the limit" is how much of the N-fold gain a row reached."""
    titles = ["", "instances/s", *ratio_titles(rows), "of the limit", "positions per pass"]
    cells = []
    for row, ratios in zip(rows, ratio_cells(rows), strict=True):
        share = f"{row['ratio'] / row['group_size']:.0%}" if row["group_size"] > 1 else ""
        cells.append([row["name"], f"{row['rate']:,.0f}", *ratios, share, str(row["positions"])])
    return titles, cells


def _several(rows: Rows) -> bool:
    return len({row["about"]["engine"] for row in rows}) > 1
