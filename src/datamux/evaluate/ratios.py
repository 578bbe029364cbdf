"""The ratios in a speed record: to the plain model on the same engine, and to the first row."""

from collections.abc import Sequence
from typing import Any

Rows = Sequence[dict[str, Any]]


def against_first(rows: Rows) -> list[float]:
    """Each row's ratio, times that of the plain model on its engine, which is compared with the first."""
    plain = {row["about"]["engine"]: row["ratio"] for row in rows if is_plain(row)}
    return [row["ratio"] * (1.0 if is_plain(row) else plain[row["about"]["engine"]]) for row in rows]


def is_plain(row: dict[str, Any]) -> bool:
    """Whether the others on its engine are compared with it."""
    return bool(row["name"] == f"plain, {row['about']['engine']}")


def ratio_titles(rows: Rows) -> list[str]:
    more = [f"against {rows[0]['name']}"] if _several(rows) else []
    return ["against plain, same engine (lowest to highest)", *more]


def ratio_cells(rows: Rows) -> list[list[str]]:
    """Of each row, what stands below `ratio_titles`."""
    cells = []
    for row, first in zip(rows, against_first(rows), strict=True):
        measured = f"{row['ratio']:.2f}x ({row['lowest']:.2f} to {row['highest']:.2f})"
        if not _several(rows):
            cells.append([measured])
        else:
            cells.append(["", measured] if is_plain(row) else [measured, f"{first:.2f}x"])
    return cells


def share_cell(row: dict[str, Any]) -> str:
    """How much of the N-fold gain was reached."""
    return f"{row['ratio'] / row['group_size']:.0%}" if row["group_size"] > 1 else ""


def _several(rows: Rows) -> bool:
    return len({row["about"]["engine"] for row in rows}) > 1
