"""`datamux demo`: the packaged models at work on this machine, beside plain ones. Nothing is downloaded."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from datamux.cli.options import AsJson
from datamux.cli.output import check_can_draw_into, show_table

if TYPE_CHECKING:
    from datamux.evaluate.demo import Shown

OTHER = " *"  # marks an answer that differs from the plain model's
WIDTH = 76  # longer texts are cut in the table
NEXT = """Next:
  {datamux} demo "A text of yours." "And another."     the same with your texts
  {datamux} predict sentiment IN.csv -o OUT.csv         a whole file
  {datamux} train --train YOURS.csv --text TEXT --label LABEL --num-instances 10      your own classifier or tagger"""
RIVALS = "A smaller plain model may be even faster and lose less: `datamux frontier` measures both on your data."
TRAIN = "pip install 'datamux[train]' (in a checkout: '.[train]')"


def demo(
    texts: Annotated[list[str] | None, typer.Argument(help="Your own texts. Default: our sentences.")] = None,
    plot: Annotated[Path, typer.Option(help="Draw the measurements into this file.")] = Path("datamux-demo.png"),
    seconds: Annotated[float, typer.Option(min=0.01, help="Seconds that one setting runs in one round.")] = 0.1,
    rounds: Annotated[int, typer.Option(min=1, help="The largest number of rounds to measure.")] = 3,
    max_seconds: Annotated[
        float,
        typer.Option(min=0.1, help="Measure each model for about this long; a slow machine gets fewer rounds."),
    ] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Answer texts with the packaged models, many texts per pass, beside plain models; then measure both here."""
    check_can_draw_into(plot)
    if any(not text.strip() for text in texts or []):
        raise ValueError("one of the texts is empty; leave it out")
    with _progress("loading the models"):
        from datamux.evaluate.demo import SENTENCES, answer_texts, draw_demo, load_pair, measure_speed

        pairs = [load_pair(name) for name in SENTENCES]
    shown = []
    for pair in pairs:
        shown.append(answer_texts(pair, texts or []))
        if not as_json:
            _print_answers(shown[-1])
    for pair, one in zip(pairs, shown, strict=True):
        with _progress(f"{pair.name}: measuring") as tell:
            one.speeds = measure_speed(
                pair, one.texts, rounds=rounds, seconds=seconds, max_seconds=max_seconds, tell=tell
            )
        if not as_json:
            _print_speed(one, "Your texts and our sentences" if texts else "The sentences above")
    if as_json:
        typer.echo(json.dumps([asdict(one) | {"equal": one.equal} for one in shown], indent=1))
    if find_spec("matplotlib") is None:
        typer.echo("no plot was drawn, because matplotlib is missing: pip install 'datamux[bench]'", err=True)
    else:
        draw_demo(shown, plot)
        typer.echo(f"drawn: {plot}", err=True)
    if not as_json:
        typer.echo(f"{RIVALS}\n{_next_steps()}")


def _next_steps() -> str:
    """Commands that work here: `make demo` runs a datamux that is not on the PATH, without the extra `train`."""
    unknown = Path(sys.argv[0]).name == "datamux" and not shutil.which("datamux")
    steps = NEXT.format(datamux=sys.argv[0] if unknown else "datamux")
    return steps if find_spec("accelerate") else f"{steps}\nTraining needs: {TRAIN}"


@contextmanager
def _progress(what: str) -> Iterator[Callable[[str], None]]:
    """A status line that changes; where stderr is not a terminal, one line per message."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(what) as status:
            yield lambda text: status.update(f"{what}: {text}")
    else:
        typer.echo(what, err=True)
        yield lambda text: typer.echo(f"{what}: {text}", err=True)


def _print_answers(one: "Shown") -> None:
    typer.echo(
        f"\n{one.name}: {len(one.texts)} texts, {one.group_size} per pass"
        + (f" (with {one.company} of our own to fill it)" if one.company else "")
    )
    from datamux.evaluate.demo import bare

    rows = [
        (_short(text), _words(plain), _words(mixed) + (OTHER if bare(plain) != bare(mixed) else ""))
        for text, plain, mixed in zip(one.texts, one.plain, one.mixed, strict=True)
    ]
    show_table(("text", "plain model", f"{one.group_size} per pass"), rows)
    typer.echo(f"{one.equal:.0%} of the answers are the same as the plain model's;{OTHER} marks the others.\n")


def _print_speed(one: "Shown", measured_on: str) -> None:
    rows = [
        (r["name"], f"{r['rate']:,.0f}", f"{r['ratio']:.1f}x" + _range(r), f"{100 * r['score']:.1f}")
        for r in one.speeds
    ]
    show_table((one.name, "texts/s here", "against plain", f"{one.metric}, from its card"), rows)
    rounds = len(one.speeds[0]["rates"])
    typer.echo(f"{measured_on}, again and again, from texts to answers; {rounds} round{'s'[: rounds != 1]}.\n")


def _range(row: dict[str, Any]) -> str:
    """The lowest and the highest ratio, if there were several rounds."""
    return f" ({row['lowest']:.1f} to {row['highest']:.1f})" if len(row["rates"]) > 1 else ""


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def _words(answer: Any) -> str:
    """An answer in a cell: the label and its score, or the spans."""
    if isinstance(answer, dict):
        return f"{answer['label']} {answer['score']:.0%}"
    return ", ".join(f"{span['word']} ({span['entity_group']})" for span in answer) or "-"
