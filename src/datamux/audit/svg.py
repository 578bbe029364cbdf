"""Small charts as SVG text, for a page that needs no other file. Lines and bars are all that an audit shows."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 420, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 26, 40
COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#6b7280")
Points = Sequence[tuple[float, float]]


def lines(title: str, series: Mapping[str, Points], *, x: str, y: str = "percent", level: float | None = None) -> str:
    """One line per series over evenly spaced x; values are shares, shown as percent. `level`: a dashed line."""
    places = sorted({a for points in series.values() for a, _ in points})
    values = [b for points in series.values() for _, b in points] + ([level] if level is not None else [])
    low, high = _range(values)
    across = {a: LEFT + (i + 0.5) * (WIDTH - LEFT - RIGHT) / max(1, len(places)) for i, a in enumerate(places)}
    parts = [_frame(title, x, y, low, high)]
    for a, at in across.items():
        parts.append(_text(at, HEIGHT - BOTTOM + 16, f"{a:g}", "middle"))
    if level is not None:
        at = _down(level, low, high)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="level"/>')
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        drawn = [(across[a], _down(b, low, high)) for a, b in points]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in drawn)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in drawn]
        parts.append(_text(LEFT + 6, TOP + 14 + 13 * number, name, "start", colour))
    return _svg(title, parts)


def bars(title: str, values: Mapping[str, float], *, level: float | None = None, x: str = "") -> str:
    """One bar per name, from zero; values are shares, shown as percent."""
    low, high = 0.0, 1.1 * max([*values.values(), level or 0.0, 0.01])
    step = (WIDTH - LEFT - RIGHT) / max(1, len(values))
    parts = [_frame(title, x, "percent", low, high)]
    for number, (name, value) in enumerate(values.items()):
        top, left = _down(value, low, high), LEFT + number * step + 0.15 * step
        size = f'width="{0.7 * step:.1f}" height="{max(0.0, HEIGHT - BOTTOM - top):.1f}"'
        parts.append(f'<rect x="{left:.1f}" y="{top:.1f}" {size} fill="{COLOURS[0]}"/>')
        parts.append(_text(left + 0.35 * step, HEIGHT - BOTTOM + 14, name, "middle"))
    if level is not None:
        at = _down(level, low, high)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="level"/>')
    return _svg(title, parts)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """From zero, unless all values are far above it."""
    low, high = min([*values, 1.0]), max([*values, 0.0])
    low = 0.0 if low < 0.4 * high or high == low else low - 0.3 * (high - low)
    return max(0.0, low), high + 0.1 * (high - low) if high > low else low + 0.01


def _down(value: float, low: float, high: float) -> float:
    return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _frame(title: str, x: str, y: str, low: float, high: float) -> str:
    parts = [_text(LEFT, 16, title, "start", weight="600")]
    for i in range(5):
        value = low + i * (high - low) / 4
        at = _down(value, low, high)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        digits = 0 if high - low > 0.2 else 1 if high - low > 0.02 else 2
        parts.append(_text(LEFT - 5, at + 4, f"{100 * value:.{digits}f}", "end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x, "middle"))
    parts.append(
        f'<text class="axis" transform="translate(12 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y)}</text>'
    )
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "currentColor", weight: str = "400") -> str:
    look = f'text-anchor="{anchor}" fill="{colour}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(text)}</text>'


def _svg(title: str, parts: Sequence[str]) -> str:
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg {box} role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
