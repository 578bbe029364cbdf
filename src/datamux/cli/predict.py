"""`datamux predict`: answers for every row of a file."""

import time
from pathlib import Path
from typing import Annotated

import typer

from datamux.cli.options import TextColumns


def predict(
    model: Annotated[str, typer.Argument(help="Folder or name of a trained or exported model.")],
    source: Annotated[
        Path,
        typer.Argument(metavar="IN", help="txt, csv, tsv, jsonl or parquet; - reads stdin, a text a line."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="csv, tsv, jsonl or parquet (needs the extra train).")],
    text: TextColumns = ["text"],
    group_size: Annotated[int | None, typer.Option("--group-size", "-k", help="Default: all slots.")] = None,
    bf16: Annotated[bool, typer.Option("--bf16", help="Run in half precision.")] = False,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Let torch.compile write the code: a minute first.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="How the names of the columns with answers begin.")] = "predicted_",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; default: cuda if there is one.")] = None,
    memory: Annotated[int, typer.Option(min=1, help="Megabytes that one pass may take.")] = 1024,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Answer every row of a file. All columns and the order are kept; an interrupted run goes on where it stopped."""
    from datamux.hub.loading import load_config
    from datamux.inference.files import predict_file
    from datamux.inference.journal import STDIN, identity
    from datamux.inference.predictor import load
    from datamux.zoo import find_model

    folder = Path(find_model(model))
    files = identity(folder) if folder.is_dir() else [str(load_config(model)._commit_hash)]
    predictor = load(model, device=device, bf16=bf16, compiled=compiled, memory=memory << 20)
    before = time.perf_counter()
    try:
        done = predict_file(
            predictor,
            source,
            output,
            text=text,
            group_size=group_size,
            prefix=prefix,
            progress=not quiet,
            settings={"model": model, "files": files, "bf16": bf16},
        )
    except KeyboardInterrupt:
        if source != STDIN:
            typer.echo("interrupted; the same command goes on where this one stopped", err=True)
        raise
    if done.resumed_after:
        typer.echo(f"went on after {done.resumed_after} rows", err=True)
    rate = (done.rows + done.bad - done.resumed_after) / (time.perf_counter() - before)
    typer.echo(f"{done.rows} rows answered, {rate:,.0f} a second: {output}", err=True)
    if done.bad:
        for problem in done.problems:
            typer.echo(problem, err=True)
        typer.echo(f"{done.bad} bad rows: {output}.errors.jsonl", err=True)
        if not done.rows:
            raise typer.Exit(1)  # a script that looks at nothing else shall see it
