"""What `datamux reproduce` prints: lists of experiments, and the tables, rows and pictures of records."""

import json
import re
from pathlib import Path
from typing import Any

import typer

from datamux.cli.output import show_table
from datamux.reproduce.catalogue import EXPERIMENTS, FIGURES, choose
from datamux.reproduce.experiment import IMAGES, Experiment
from datamux.reproduce.figures import DERIVED, DERIVED_ROWS, SECTIONS, can_draw, draw
from datamux.reproduce.figures.growth import draw_growth
from datamux.reproduce.images.rows import rows_of, select_rows, without_accuracy
from datamux.reproduce.paper.all_figures import PAPER_FIGURES
from datamux.reproduce.paper.claims import CLAIMS, Claim
from datamux.reproduce.paper.drawing import draw_paper_figure
from datamux.reproduce.paper.figure import PaperFigure, Point, score_rows
from datamux.reproduce.paper.image_figures import IMAGE_FIGURES
from datamux.reproduce.paper.pages import figure_lines
from datamux.reproduce.records import Groups, Record, record_state, recorded, records_of

LISTED = (*PAPER_FIGURES.values(), *IMAGE_FIGURES.values())  # the figures of the paper, of texts and of images
FEW = 7  # experiments that are named in the list of figures
SELECTED = ("images", "image speed")  # the kinds of records of which some series and sizes can be shown


def print_list(names: list[str], as_json: bool) -> None:
    """The paper's figures and claims, and our figures; with names, the experiments; as JSON, all of them."""
    experiments = [e for name in names for e in choose(name)] if names else list(EXPERIMENTS.values())
    if as_json:
        paper = [] if names else [*map(_described_figure, LISTED), *map(_described_claim, CLAIMS)]
        typer.echo(json.dumps(paper + [_described(e) for e in experiments], indent=1))
    elif names:
        columns = ("experiment", "kind", "seeds", "record")
        rows = [
            (*(str(_described(e)[column]) for column in columns), e.about or ", ".join(e.needs)) for e in experiments
        ]
        show_table((*columns, "what it shows, or needs first"), rows)
    else:
        figures = [(f.name, f.where, f.title, f.record) for f in LISTED]
        show_table(("figure of the paper", "where", "about", "record"), figures)
        typer.echo()
        claims = [(c.name, c.statement, verdict.word, verdict.because) for c in CLAIMS for verdict in (c.verdict,)]
        show_table(("claim of the paper", "statement", "verdict", "because"), claims)
        typer.echo()
        show_table(("figure", "about", "with a record", "experiments"), [_figure_row(figure) for figure in FIGURES])


def _described_figure(figure: PaperFigure) -> dict[str, Any]:
    found, needed = figure.records
    return {
        "entry": "figure",
        "name": figure.name,
        "where": figure.where,
        "about": figure.title,
        "record": figure.record,
        "records": found,
        "records_needed": needed,
        "experiments": list(figure.experiments),
        "holds": _verdicts(figure.name),
    }


def _verdicts(figure: str) -> dict[str, str]:
    """The verdicts of the claims that a figure or an experiment shows."""
    return {claim.name: claim.verdict.word for claim in CLAIMS if claim.figure == figure}


def _described_claim(claim: Claim) -> dict[str, Any]:
    verdict = claim.verdict
    return {
        "entry": "claim",
        "name": claim.name,
        "where": claim.where,
        "about": claim.statement,
        "figure": claim.figure,
        "record": "no" if verdict.word == "not run yet" else "yes",
        "holds": verdict.word,
        "because": verdict.because,
    }


def print_paper_figure(name: str, plot: Path | None, as_json: bool) -> None:
    """The rows of a figure of the paper from committed records, and its picture, if one is wanted."""
    figure = PAPER_FIGURES[name]
    rows = figure.rows()
    if not rows:
        raise FileNotFoundError(f"no record is committed of {name}; run it with datamux reproduce {name}")
    if plot is not None:
        draw_paper_figure(figure, plot)
        typer.echo(f"drawn: {plot}", err=True)
    typer.echo(json.dumps(rows, indent=1) if as_json else "\n".join(figure_lines(figure)))


def _figure_row(figure: str) -> tuple[str, ...]:
    inside = choose(figure)
    states = [record_state([e]) for e in inside]
    in_part = f", {states.count('in part')} in part" if "in part" in states else ""
    names = ", ".join(e.name for e in inside) if len(inside) <= FEW else f"datamux reproduce --list {figure}"
    return figure, FIGURES[figure], f"{states.count('yes')} of {len(inside)}{in_part}", names


def _described(experiment: Experiment) -> dict[str, Any]:
    return {
        "entry": "experiment",
        "name": experiment.id,
        "experiment": experiment.id,
        "kind": experiment.kind,
        "about": experiment.about,
        "seeds": len(experiment.seeds),
        "series": [s.name for s in experiment.series],
        "needs": list(experiment.needs),
        "record": "retired" if experiment.retired else record_state([experiment]),
        "holds": _verdicts(experiment.name),
    }


def print_derived(name: str, plot: Path | None, as_json: bool) -> None:
    """A section that is made of the records of other figures."""
    if plot is not None and name != "growth":
        raise ValueError(f"there is no picture of {name}: leave --plot out")
    if plot is not None:
        draw_growth(plot)
    groups = records_of(DERIVED[name])
    if as_json:
        typer.echo(json.dumps(DERIVED_ROWS[name](groups), indent=1))
    else:
        typer.echo(_without_pictures(SECTIONS[name](groups)))


def committed_records(chosen: list[Experiment], series: list[str], sizes: list[int]) -> list[Record]:
    """The records in the package of some experiments, with some of their series and sizes or all of them."""
    records = [record for experiment in chosen for record in recorded(experiment)]
    if not series and not sizes:
        return records
    return [select_rows(record, series, sizes) if record["kind"] in SELECTED else record for record in records]


def print_records(records: list[Record], plot: Path | None, as_json: bool) -> None:
    """The tables of some records, or their rows as JSON; and a picture, if one is wanted."""
    if plot is not None:
        check_one_picture([record["kind"] for record in records])
        draw(next(record for record in records if can_draw(record["kind"])), plot)
        typer.echo(f"drawn: {plot}", err=True)
    for record in records:
        if record["kind"] == "image speed" and without_accuracy(record):
            lacking = ", ".join(without_accuracy(record))
            typer.echo(f"no accuracy: there is no committed record of the same data for {lacking}", err=True)
    typer.echo(json.dumps(_as_rows(records), indent=1) if as_json else _as_text(records))


def check_one_picture(kinds: list[str]) -> None:
    found = sum(map(can_draw, kinds))
    if found != 1:
        raise ValueError(f"--plot draws one experiment that has a picture, but {found} such are named; see --list")


def _as_text(records: list[Record]) -> str:
    """The tables of some records, one section per figure."""
    figures: dict[str, Groups] = {}
    for record in records:
        name = record["experiment"].partition("/")[2]
        figures.setdefault(record["figure"], {}).setdefault(name, []).append(record)
    return "\n\n".join(_without_pictures(SECTIONS[figure](groups)) for figure, groups in figures.items())


def _without_pictures(lines: list[str]) -> str:
    """The text of a section; its pictures are for the documentation."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line for line in lines if not line.startswith("![")))


def _as_rows(records: list[Record]) -> list[dict[str, Any]]:
    """The same numbers for scripts: series, n, metric, value, spread, seeds and paper where a record has scores."""
    rows: list[dict[str, Any]] = []
    scored: dict[str, list[Record]] = {}
    for record in records:
        if record["kind"] in IMAGES:
            rows += rows_of(record)
        elif record["kind"] == "quality":
            scored.setdefault(record["experiment"], []).append(record)
        elif isinstance(record.get("rows"), list):  # of an audit, it is how many rows were used
            rows += record["rows"]
        else:
            about = {"experiment": record["experiment"], "seed": record["seed"]}
            results = record["results"]
            rows += [about | row for row in ([results] if isinstance(results, dict) else results)]
    for name, same in scored.items():
        results = [result for record in same for result in record["results"]]
        metrics = {result["group_size"]: result["metric"] for result in results}
        points = [Point(name, k, metric, name) for k, metric in metrics.items()]
        rows += [{"experiment": name} | row for row in score_rows(points, {name: same})]
    return rows
