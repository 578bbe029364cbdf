"""`datamux explain`: how one answer varies over groups and slots."""

import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from datamux.cli import options
from datamux.cli.output import show_table


def explain(
    model: Annotated[str, typer.Argument(help="Folder or name of a model.")],
    text: Annotated[str, typer.Argument(help="The text to explain.")],
    pair: Annotated[str | None, typer.Option(help="The second text, for a model of pairs: QQP, MNLI or QNLI.")] = None,
    neighbours: Annotated[
        Path | None,
        typer.Option(
            help="A file with one neighbour per line; of pairs, both texts with a tab between them. "
            "Default: sentences in the package."
        ),
    ] = None,
    group_size: options.GroupSizes = [],
    groups: Annotated[int, typer.Option(min=1, help="Random groups per group size.")] = 200,
    as_json: options.AsJson = False,
) -> None:
    """Show how the answer for one text varies with its neighbours and its slot.

    Example: datamux explain sentiment "A warm, funny film."
    """
    from datamux.audit.explain import explain_text, histogram
    from datamux.inference.predictor import load
    from datamux.zoo.sentences import NEWS, OPINIONS

    predictor = load(model)
    others: list[Any] = [*OPINIONS, *NEWS]
    if neighbours is not None:
        others = [line for line in neighbours.read_text(encoding="utf-8").splitlines() if line.strip()]
    if pair is not None:
        others = list(pairwise(others)) if neighbours is None else [_as_pair(line, neighbours) for line in others]
    asked = text if pair is None else (text, pair)
    found = explain_text(predictor, asked, others, group_sizes=group_size, groups=groups)
    if as_json:
        typer.echo(json.dumps([asdict(variation) for variation in found], indent=1))
        return
    rows = []
    for v in found:
        ends = f"{min(v.scores):.2f} to {max(v.scores):.2f}"
        slots = f"{min(v.slots):.0%} to {max(v.slots):.0%}"
        rows.append((str(v.group_size), v.usual, f"{v.share:.1%}", slots, ends, f"|{histogram(v.scores)}|"))
    show_table(("per pass", "usual answer", "agree", "agree by slot", "score", "scores from 0 to 1"), rows)
    last = found[-1]
    rest = ", ".join(f"{said} ({many})" for said, many in list(last.others.items())[:3])
    typer.echo(
        f"\nAt {last.group_size} texts per pass, {last.share:.1%} of {groups if last.group_size > 1 else 1} groups "
        f"give the usual answer" + (f"; others: {rest}." if rest else ".")
    )


def _as_pair(line: str, file: Path) -> tuple[str, str]:
    first, tab, second = line.partition("\t")
    if not tab:
        raise ValueError(f"{file}: with --pair, a line holds two texts with a tab between them, got {line!r}")
    return first, second
