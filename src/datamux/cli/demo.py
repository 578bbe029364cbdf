"""`datamux demo`: the models in the package at work on this machine, beside the plain ones; nothing to download."""

import json
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from datamux.cli.output import show_table

if TYPE_CHECKING:
    from datamux.evaluate.demo import Shown

WIDTH = 76  # letters of a text that are shown
NEXT = """Next:
  datamux demo "A text of yours." "And another."     the same with your texts
  datamux predict sentiment IN.csv -o OUT.csv         a whole file
  datamux train --train YOURS.csv --text TEXT --label LABEL --num-instances 10      your own classifier or tagger"""


def demo(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts of yours; without any, ours are shown.")] = None,
    plot: Annotated[Path, typer.Option(help="Where to draw what was measured.")] = Path("datamux-demo.png"),
    seconds: Annotated[float, typer.Option(min=0.01, help="Time of one setting in one round.")] = 0.3,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of measuring.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Answer texts with the shipped models, many texts a pass, beside the plain models; then measure both here."""
    from rich.console import Console

    from datamux.evaluate.demo import SENTENCES, draw_demo, show_model

    progress = Console(stderr=True)
    with progress.status("") as status:
        shown = [
            show_model(name, texts or [], seconds=seconds, rounds=rounds, tell=status.update) for name in SENTENCES
        ]
    drawn = find_spec("matplotlib") is not None
    if drawn:
        draw_demo(shown, plot)
    if as_json:
        typer.echo(json.dumps([asdict(one) | {"equal": one.equal} for one in shown], indent=1))
        return
    console = Console(highlight=False)
    for one in shown:
        _print_answers(console, one)
        _print_speed(console, one)
    console.print(f"drawn: {plot}" if drawn else "no plot without matplotlib: pip install 'datamux[bench]'")
    console.print(NEXT, soft_wrap=True)


def _print_answers(console: Any, one: "Shown") -> None:
    console.print(f"\n[bold]{one.name}[/bold]: {len(one.texts)} texts, {one.group_size} of them in every pass")
    rows = [
        (_short(text), _words(plain), _words(mixed))
        for text, plain, mixed in zip(one.texts, one.plain, one.mixed, strict=True)
    ]
    show_table(("text", "plain model", f"{one.group_size} a pass"), rows)
    console.print(f"{one.equal:.0%} of the answers are those of the plain model.\n")


def _print_speed(console: Any, one: "Shown") -> None:
    rows = [
        (r["name"], f"{r['rate']:,.0f}", f"{r['ratio']:.1f}x ({r['lowest']:.1f} to {r['highest']:.1f})",
         f"{100 * r['score']:.1f}")
        for r in one.speeds
    ]  # fmt: skip
    show_table(("", "texts/s here", "against plain", f"{one.metric}, from its card"), rows)
    console.print()


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def _words(answer: Any) -> str:
    """An answer in a cell: the label and its score, or the spans."""
    if isinstance(answer, dict):
        return f"{answer['label']} {answer['score']:.0%}"
    return ", ".join(f"{span['word']} ({span['entity_group']})" for span in answer) or "-"
