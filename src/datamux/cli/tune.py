"""`datamux tune`: the fastest model that is good enough for your data, on your machine."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from datamux.cli.options import DataDir, LabelColumn, Record, TextColumns, TokenLevel
from datamux.cli.output import keep, show_table


def tune(
    train_file: Annotated[
        Path | None, typer.Option("--train", help="Your rows with labels (csv, tsv, jsonl, parquet).")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="A known task instead of a file (see datamux ls tasks).")
    ] = None,
    text: TextColumns = ["text"],
    label: LabelColumn = "label",
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Folder or name of a pretrained encoder, or of a classifier of yours, which is then the reference as "
            "it is. Default: minilm, where it is installed; otherwise the small encoder in the package."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder for the best model. A search that was interrupted there goes on."),
    ] = Path("best"),
    budget: Annotated[str, typer.Option(help="How long the search may take: 45m, 2h, 1h30m.")] = "60m",
    max_drop: Annotated[
        float | None, typer.Option(help="The model may score this many points below the reference. Default: 1.")
    ] = None,
    min_score: Annotated[float | None, typer.Option(help="The model must score at least this many percent.")] = None,
    min_speed: Annotated[
        float | None, typer.Option(help="The model must answer at least this many texts per second on this machine.")
    ] = None,
    sure: Annotated[
        float,
        typer.Option(
            help="In this share of random samples of the rows (for --min-speed, of timings) the limit must hold."
        ),
    ] = 0.5,
    metric: Annotated[
        str, typer.Option(help="auto, or macro-f1, which counts every class equally (for rare classes).")
    ] = "auto",
    validation: Annotated[
        Path | None, typer.Option(help="Rows to choose with. Default: 15% of your rows are held out.")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Rows that play no part; the chosen model is scored on them at the end.")
    ] = None,
    unlabelled: Annotated[
        Path | None,
        typer.Option(help="Texts without labels (a table, or .txt with one text per line) to learn from as well."),
    ] = None,
    token_level: TokenLevel = False,
    family: Annotated[list[str], typer.Option(help="Only these families of contenders; repeat the option.")] = [],
    engine: Annotated[
        list[str], typer.Option(help="Only these engines: torch, bf16, onnx, int8, openvino. Default: all installed.")
    ] = [],
    max_rows: Annotated[int, typer.Option(min=1, help="Draw this many rows at random if the file has more.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of every training.")] = 0,
    data_dir: DataDir = None,
    record: Record = None,
) -> None:
    """Find the fastest model that is good enough for your rows, on this machine, within a time budget.

    Your encoder is fine-tuned first. Contenders of several families then learn from it: the same encoder cut to fewer
    layers, multiplexed, both, small encoders, and words without any layer. They are measured on every engine.

    datamux tune --train reviews.csv --text review --label verdict --max-drop 1.0 --budget 45m -o best
    """
    from rich.console import Console

    from datamux.hub.loading import without_bars
    from datamux.tuning.report import TITLES, cells
    from datamux.tuning.run import run_tune
    from datamux.tuning.settings import Settings, Wish, parse_budget

    logging.basicConfig(format="%(message)s")
    notes = Console(stderr=True)
    settings = Settings(
        out=out,
        train=train_file,
        task=task,
        text=text,
        label=label,
        validation=validation,
        test=test,
        unlabelled=unlabelled,
        encoder=encoder,
        budget=parse_budget(budget),
        wish=Wish(max_drop, min_score, min_speed, sure),
        metric=metric,
        token_level=token_level,
        families=family,
        engines=engine,
        max_rows=max_rows,
        seed=seed,
        data_dir=data_dir,
    )
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of parts that no model here has
    with without_bars():
        result = run_tune(settings, lambda line: notes.print(line, style="dim", markup=False))
    show_table(TITLES, [cells(row) for row in result.table])
    keep(result.as_record(), record, as_json=False)
    typer.echo(f"\n{result.recommendation}")
    typer.echo(result.record["tenfold"])
    if result.record.get("tested"):
        typer.echo(result.record["tested"])
    typer.echo(f"report:  {out / 'report.html'}")
    columns = "".join(f" --text {column}" for column in text)
    typer.echo(f"use it:  datamux predict {out} FILE -o ANSWERS.csv{columns}")
