"""Draw the pictures of the docs as SVG.

`--check` writes nothing and fails if a picture is out of date. Each picture has a light background of its own, so it
looks the same on a light and on a dark page. The screenshot of the playground is only checked here, by the mark that
`playground_picture.py` puts into it: to take it again needs a browser.
"""

import json
import sys
from hashlib import sha256
from html import escape
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
MODEL = ROOT / "src" / "datamux" / "zoo" / "sentiment"
SCREENSHOT, MARK = FOLDER / "playground.png", "model"
COLOURS = ("#d55e00", "#0072b2", "#009e73")  # one per slot; colour-blind readers can tell them apart
INK, GREY, PAPER = "#1f2430", "#6b7280", "#fbfbf9"


class Picture:
    """A card of `width` by `height`. Each drawing method adds one shape or text."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'font-family="Helvetica, Arial, sans-serif" font-size="15" fill="{INK}">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{GREY}"/></marker></defs>',
            f'<rect x="1" y="1" width="{width - 2}" height="{height - 2}" rx="10" fill="{PAPER}" stroke="#d4d4d0"/>',
        ]

    def text(self, x: float, y: float, words: str, *, size: int = 15, colour: str = INK, bold: bool = False) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y + size * 0.35:g}" font-size="{size}" fill="{colour}" text-anchor="middle"{weight}>'
            f"{escape(words)}</text>"
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        words: str = "",
        *,
        height: float = 34,
        fill: str = "#fff",
        size: int = 15,
    ) -> None:
        """A box with its centre at (x, y), and one line of text per line of `words`."""
        filled = fill in COLOURS
        self.parts.append(
            f'<rect x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}" rx="5" '
            f'fill="{fill}" stroke="{INK if not filled else fill}" stroke-width="1.2"/>'
        )
        for number, line in enumerate(words.split("\n")):
            lines = words.count("\n") + 1
            self.text(x, y + (number - (lines - 1) / 2) * 19, line, size=size, colour="#fff" if filled else INK)

    def empty(self, x: float, y: float, width: float, height: float = 34) -> None:
        self.parts.append(
            f'<rect x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}" rx="5" '
            f'fill="none" stroke="{GREY}" stroke-dasharray="4 4"/>'
        )

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        self.parts.append(
            f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke="{GREY}" stroke-width="1.6" '
            'marker-end="url(#tip)"/>'
        )

    def svg(self) -> str:
        return "\n".join([*self.parts, "</svg>", ""])


def mixing() -> Picture:
    """Three texts go through one network once, and three answers come out."""
    p = Picture(900, 270, "Three texts are mixed, run through the network once, and taken apart into three answers")
    rows = (75, 135, 195)
    texts = ("a film to remember", "two dull hours", "the cast is fine")
    for y, colour, text, answer in zip(rows, COLOURS, texts, ("positive", "negative", "positive"), strict=True):
        p.box(100, y, 160, text, fill=colour)
        p.arrow(182, y, 213, y)
        p.box(245, y, 60, f"key {rows.index(y) + 1}", size=14)
        p.arrow(277, y, 346, 135 + (y - 135) * 0.25)
        p.arrow(583, 135 + (y - 135) * 0.25, 633, y)
        p.box(680, y, 90, f"unmix {rows.index(y) + 1}", size=14)
        p.arrow(727, y, 763, y)
        p.box(815, y, 100, answer, fill=colour)
    p.box(370, 135, 40, "+", height=60, fill="#f3e9c6", size=22)
    p.arrow(392, 135, 440, 135)
    p.box(511, 135, 138, "the network,\nonce", height=96, fill="#e8eaf0", size=16)
    for x, words in (
        (100, "texts"),
        (245, "multiply"),
        (370, "one mixture"),
        (680, "one per slot"),
        (815, "answers"),
    ):
        p.text(x, 35, words, size=14, colour=GREY)
    p.text(450, 243, "group size 3: three instances share one pass", size=14, colour=GREY)
    return p


def groups() -> Picture:
    """Seven rows at group size three: three groups, the last with two empty slots."""
    p = Picture(900, 250, "Seven rows at group size three make three groups; the last has two empty slots")
    for row in range(7):
        p.box(60 + row * 44, 125, 36, str(row), fill=COLOURS[row % 3])
    p.text(192, 35, "rows in input order", size=14, colour=GREY)
    for slot in range(3):
        p.text(493 + slot * 50, 35, f"slot {slot}", size=14, colour=GREY)
    for group, y in enumerate((75, 125, 175)):
        p.arrow(352, 125, 408, y)
        p.text(440, y, f"group {group}", size=14, colour=GREY)
        for slot in range(3):
            row = group * 3 + slot
            if row < 7:
                p.box(493 + slot * 50, y, 36, str(row), fill=COLOURS[slot])
            else:
                p.empty(493 + slot * 50, y, 36)
        p.arrow(625, y, 680, y)
        p.box(745, y, 120, "one pass", size=14, fill="#e8eaf0")
    p.text(450, 223, "an empty slot adds nothing to the mixture and is not counted", size=14, colour=GREY)
    return p


def padding() -> Picture:
    """Three texts of different lengths in one group: the pass is as long as the longest text."""
    p = Picture(900, 250, "Texts of different lengths in one group: the pass is as long as the longest text")
    words = (("a", "film", "to", "remember"), ("dull",), ("the", "cast", "is", "fine", "and", "funny"))
    for slot, (y, text) in enumerate(zip((70, 115, 160), words, strict=True)):
        p.text(60, y, f"slot {slot}", size=14, colour=GREY)
        for position in range(6):
            x = 145 + position * 100
            if position < len(text):
                p.box(x, y, 90, text[position], fill=COLOURS[slot])
            else:
                p.empty(x, y, 90)
    p.text(60, 210, "mixture", size=14, colour=GREY)
    for position, count in enumerate((3, 2, 2, 2, 1, 1)):
        p.box(145 + position * 100, 210, 90, f"{count} mixed", size=14, fill="#f3e9c6")
    p.text(395, 32, "positions", size=14, colour=GREY)
    p.text(800, 100, "padding adds", size=14, colour=GREY)
    p.text(800, 120, "exactly 0", size=14, colour=GREY)
    p.text(800, 200, "the pass is as long", size=14, colour=GREY)
    p.text(800, 220, "as the longest text", size=14, colour=GREY)
    return p


def mux_layer() -> Picture:
    """Where the mixture is made: before the first layer, or after some layers."""
    p = Picture(900, 330, "Mixing word vectors, or mixing after two layers that every text runs through separately")
    for left, title, layers_before in ((0, "mux_layer = 0: mix word vectors", 0), (450, "mux_layer = 2: mix later", 2)):
        p.text(left + 225, 32, title, bold=True)
        for slot in range(3):
            x = left + 135 + slot * 90
            p.box(x, 290, 80, f"text {slot + 1}", fill=COLOURS[slot], size=14)
            for layer in range(layers_before):
                p.box(x, 250 - layer * 36, 80, f"layer {layer + 1}", height=28, size=13, fill="#e8eaf0")
        p.box(left + 225, 250 - layers_before * 36, 260, "+", height=28, fill="#f3e9c6")
        for layer in range(layers_before, 4):
            p.box(left + 225, 250 - (layer + 1) * 36, 260, f"layer {layer + 1}", height=28, size=13, fill="#e8eaf0")
        p.text(left + 225, 70, "unmix, answer", size=14, colour=GREY)
    return p


PICTURES = {"mixing": mixing, "groups": groups, "padding": padding, "mux-layer": mux_layer}


def shown_model() -> str:
    """A mark of what the screenshot of the playground shows: the model's weights, and its numbers."""
    card = json.loads((MODEL / "card.json").read_text(encoding="utf-8"))
    numbers = json.dumps([card[name] for name in ("scores", "speed", "flips")], sort_keys=True)
    return sha256((MODEL / "model.safetensors").read_bytes() + numbers.encode()).hexdigest()[:16]


def main() -> None:
    stale = []
    for name, draw in PICTURES.items():
        file, new = FOLDER / f"{name}.svg", draw().svg()
        if not file.exists() or file.read_text(encoding="utf-8") != new:
            stale.append(file.name)
            if "--check" not in sys.argv:
                file.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"out of date: {', '.join(stale)}; run `make docs`")
    with Image.open(SCREENSHOT) as picture:
        if picture.info.get(MARK) != shown_model():
            sys.exit(f"{SCREENSHOT.name} shows an older model; run scripts/playground_picture.py, which needs chromium")


if __name__ == "__main__":
    main()
