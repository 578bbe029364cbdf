"""`datamux demo`: the models in the package at work on this machine, beside the plain ones; nothing to download."""

import json
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from datamux.cli.options import AsJson
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
    seconds: Annotated[float, typer.Option(min=0.01, help="Time of one setting in one round.")] = 0.1,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of measuring.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Answer texts with the shipped models, many texts a pass, beside the plain models; then measure both here."""
    from rich.console import Console

    from datamux.evaluate.demo import SENTENCES, draw_demo, show_model

    if not plot.parent.is_dir():
        raise ValueError(f"no such folder for the plot: {plot.parent}")
    progress = Console(stderr=True)
    with progress.status("") as status:
        shown = [
            show_model(name, texts or [], seconds=seconds, rounds=rounds, tell=status.update) for name in SENTENCES
        ]
    if as_json:
        typer.echo(json.dumps([asdict(one) | {"equal": one.equal} for one in shown], indent=1))
    else:
        for one in shown:
            _print_answers(one)
            _print_speed(one)
    if find_spec("matplotlib") is None:
        typer.echo("no plot without matplotlib: pip install 'datamux[bench]'", err=True)
    else:
        draw_demo(shown, plot)
        typer.echo(f"drawn: {plot}", err=True)
    if not as_json:
        typer.echo(NEXT)


def _print_answers(one: "Shown") -> None:
    company = -len(one.texts) % one.group_size
    typer.echo(
        f"\n{one.name}: {len(one.texts)} texts, {one.group_size} in every pass"
        + (f" ({company} of ours among them)" if company else "")
    )
    rows = [
        (_short(text), _words(plain), _words(mixed))
        for text, plain, mixed in zip(one.texts, one.plain, one.mixed, strict=True)
    ]
    show_table(("text", "plain model", f"{one.group_size} a pass"), rows)
    typer.echo(f"{one.equal:.0%} of the answers are those of the plain model.\n")


def _print_speed(one: "Shown") -> None:
    rows = [
        (r["name"], f"{r['rate']:,.0f}", f"{r['ratio']:.1f}x ({r['lowest']:.1f} to {r['highest']:.1f})",
         f"{100 * r['score']:.1f}")
        for r in one.speeds
    ]  # fmt: skip
    show_table(("", "texts/s here", "against plain", f"{one.metric}, from its card"), rows)
    typer.echo("The sentences above, over and over, from texts to answers.\n")


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def _words(answer: Any) -> str:
    """An answer in a cell: the label and its score, or the spans."""
    if isinstance(answer, dict):
        return f"{answer['label']} {answer['score']:.0%}"
    return ", ".join(f"{span['word']} ({span['entity_group']})" for span in answer) or "-"
