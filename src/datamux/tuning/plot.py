"""Accuracy against throughput as one SVG, without any library: it goes into the report, which fetches nothing.

Its points are where `datamux frontier` draws them. That plot is drawn with matplotlib, which a search does not need.
"""

import math
from html import escape
from typing import Any

from datamux.evaluate.plots import even_rates

WIDTH, HEIGHT = 900, 480
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 30, 60
COLOURS = {
    "reference": "#222222",
    "cut": "#1f77b4",
    "mixed": "#d62728",
    "cut and mixed": "#ff7f0e",
    "narrow": "#2ca02c",
    "words": "#9467bd",
    "rival": "#888888",
}


def frontier_svg(record: dict[str, Any]) -> str:
    """One dot per timed row, a line through the frontier, and a ring around the chosen one."""
    timed = [row for row in record["table"] if row.get("timed")]
    first = next(row for row in timed if row["family"] == "reference" and row["engine"] == "torch")
    rows = even_rates(timed, first)
    x0, x1 = _bounds([math.log10(row["rate"]) for row in rows], 0.1)
    y0, y1 = _bounds([row["score"] for row in rows], 1.0)

    def place(row: dict[str, Any]) -> tuple[float, float]:
        x = LEFT + (math.log10(row["rate"]) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - (row["score"] - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)
        return round(x, 1), round(y, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="Accuracy against throughput">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *_axes(x0, x1, y0, y1, record["metric"]),
    ]
    line = sorted((place(row) for row in rows if row["on_frontier"]), key=lambda xy: xy[0])
    parts.append(
        '<polyline fill="none" stroke="#bbb" stroke-dasharray="5 4" points="'
        + " ".join(f"{x},{y}" for x, y in line)
        + '"/>'
    )
    for row in rows:
        x, y = place(row)
        colour = COLOURS.get(row["family"], "#000000")
        title = f"{row['name']}: {row['score']:.1f}, {row['ratio']:.1f} times the throughput of the reference"
        mark = f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"><title>{escape(title)}</title></circle>'
        if row["family"] == "rival":
            square = f'<rect x="{x - 5}" y="{y - 5}" width="10" height="10" fill="{colour}">'
            mark = f"{square}<title>{escape(title)}</title></rect>"
        parts.append(mark)
        if row["chosen"]:
            parts.append(f'<circle cx="{x}" cy="{y}" r="10" fill="none" stroke="black" stroke-width="2"/>')
        if row["on_frontier"] or row["chosen"] or row["family"] == "rival":
            side = "end" if x > WIDTH * 0.7 else "start"
            shift = -12 if side == "end" else 12
            parts.append(
                f'<text x="{x + shift}" y="{y - 6}" text-anchor="{side}" font-size="10">{escape(row["name"])}</text>'
            )
    seen = list(dict.fromkeys(row["family"] for row in rows))
    for number, family in enumerate(seen):
        x = LEFT + number * 125
        colour = COLOURS.get(family, "#000000")
        parts.append(f'<circle cx="{x}" cy="{HEIGHT - 12}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x + 10}" y="{HEIGHT - 8}">{escape(family)}</text>')
    return "\n".join([*parts, "</svg>"])


def _bounds(values: list[float], least: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = max(least, 0.06 * (high - low))
    return low - room, high + room


def _axes(x0: float, x1: float, y0: float, y1: float, metric: str) -> list[str]:
    parts = []
    for exponent in range(math.floor(x0), math.ceil(x1) + 1):
        for digit in (1, 2, 5):
            at = exponent + math.log10(digit)
            if x0 <= at <= x1:
                x = LEFT + (at - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
                parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#eee"/>')
                parts.append(
                    f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{digit * 10.0**exponent:,g}'
                    "</text>"
                )
    step = next(step for step in (0.2, 0.5, 1, 2, 5, 10, 20, 50) if (y1 - y0) / step <= 10 or step == 50)
    for number in range(math.ceil(y0 / step), math.floor(y1 / step) + 1):
        y = HEIGHT - BOTTOM - (number * step - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#eee"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number * step:g}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text x="{WIDTH / 2}" y="{HEIGHT - BOTTOM + 34}" text-anchor="middle">'
        "texts per second, texts to answers (those of the reference, times the ratio to it)</text>"
    )
    parts.append(
        f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">'
        f"{escape(metric)}, percent</text>"
    )
    return parts
