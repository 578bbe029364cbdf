"""`datamux predict`: answers for every row of a file, or of many files on a cluster."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from datamux.errors import check_choice

ENGINES = ("local", "ray")
ON_A_CLUSTER = "With --engine ray"


def predict(
    model: Annotated[str, typer.Argument(help="Folder or name of a trained or exported model.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help="A txt, csv, tsv, jsonl or parquet file; - reads one text per line from stdin. "
            f"{ON_A_CLUSTER} also a folder, a glob or an address such as s3://bucket/reviews.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="A csv, tsv, jsonl or parquet file (parquet needs the extra train). "
            f"{ON_A_CLUSTER}: a folder for the parts.",
        ),
    ],
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="The column with the text in your file; give it twice for pairs. "
            "Default: text, or for a model from datamux tune the column that it was tuned on."
        ),
    ] = None,
    group_size: Annotated[
        int | None, typer.Option("--group-size", "-k", help="Texts per pass. Default: all slots.")
    ] = None,
    bf16: Annotated[bool, typer.Option("--bf16", help="Run in half precision.")] = False,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Use torch.compile, which takes about a minute at first.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="The names of the columns with answers begin with this.")] = "predicted_",
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1, and so on. Default: cuda if the machine has one.")
    ] = None,
    memory: Annotated[int, typer.Option(min=1, help="The most megabytes that one pass may take.")] = 1024,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")] = False,
    engine: Annotated[
        str, typer.Option(help="local answers in this process; ray uses many processes or machines (extra ray).")
    ] = "local",
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"{ON_A_CLUSTER}: number of workers. Default: one per core, or one per GPU if there are GPUs."
        ),
    ] = None,
    num_cpus: Annotated[
        float | None, typer.Option(help=f"{ON_A_CLUSTER}: cores, and threads, of one worker. Default: 1.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help=f"{ON_A_CLUSTER}: address of the cluster, such as 10.0.0.1:6379, or auto. "
            "Default: RAY_ADDRESS, or a Ray on this machine, which is started and stopped."
        ),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help=f"{ON_A_CLUSTER}: kind of the parts, parquet or jsonl. Default: parquet.")
    ] = None,
    shard_mb: Annotated[
        float | None,
        typer.Option(
            help=f"{ON_A_CLUSTER}: megabytes of input that make one part. Default: 0.25 to 8, or a parquet row group "
            "of up to 64. A run that goes on keeps the parts that it began with."
        ),
    ] = None,
) -> None:
    """Answer every row of a file, keeping its columns and order. An interrupted run continues where it stopped.

    Many files, on all cores of this machine or of a cluster: datamux predict sentiment reviews/ -o answers --engine ray
    """
    check_choice("engine", engine, ENGINES)
    only_ray = {
        "--concurrency": concurrency,
        "--num-cpus": num_cpus,
        "--address": address,
        "--format": format,
        "--shard-mb": shard_mb,
    }
    common = {"text": text or _columns_of(model), "group_size": group_size, "prefix": prefix, "bf16": bf16}
    if engine == "local":
        given = [flag for flag, value in only_ray.items() if value is not None]
        if given:
            raise ValueError(f"{', '.join(given)} can only be used with --engine ray")
        _predict_here(model, source, output, compiled, device, memory, quiet, common)
        return
    if compiled:
        raise ValueError("--compiled cannot be used with --engine ray")
    if shard_mb is not None and not shard_mb > 0:
        raise ValueError(f"--shard-mb must be more than 0, got {shard_mb:g}")
    workers = {"concurrency": concurrency, "num_cpus": 1 if num_cpus is None else num_cpus, "address": address}
    workers |= {"device": device, "memory": memory << 20}
    _predict_on_ray(model, source, output, format or "parquet", shard_mb, quiet, workers, common)


def _columns_of(model: str) -> list[str]:
    """The columns that a model folder knows, or the usual one."""
    from datamux.inference.preferences import read_preferences
    from datamux.zoo import find_model

    return list(read_preferences(Path(find_model(model))).columns) or ["text"]


def _predict_here(
    model: str,
    source: str,
    output: str,
    compiled: bool,
    device: str | None,
    memory: int,
    quiet: bool,
    common: dict[str, Any],
) -> None:
    from datamux.hub.loading import load_config
    from datamux.inference.files import predict_file
    from datamux.inference.journal import STDIN, identity
    from datamux.inference.predictor import load
    from datamux.zoo import find_model

    folder, file, bf16 = Path(find_model(model)), Path(source), common.pop("bf16")
    files = identity(folder) if folder.is_dir() else [str(load_config(model)._commit_hash)]
    predictor = load(model, device=device, bf16=bf16, compiled=compiled, memory=memory << 20)
    before = time.perf_counter()
    try:
        done = predict_file(
            predictor,
            file,
            Path(output),
            progress=not quiet,
            settings={"model": model, "files": files, "bf16": bf16},
            **common,
        )
    except KeyboardInterrupt:
        if file != STDIN:
            typer.echo("interrupted; run the same command again to continue where it stopped", err=True)
        raise
    if done.resumed_after:
        typer.echo(f"continued after {done.resumed_after} rows", err=True)
    rate = (done.rows + done.bad - done.resumed_after) / (time.perf_counter() - before)
    typer.echo(f"{done.rows} rows answered, {rate:,.0f} per second: {output}", err=True)
    _tell_bad(done.bad, done.problems, f"{output}.errors.jsonl")
    if done.bad and not done.rows:
        raise typer.Exit(1)  # so that a script notices


def _predict_on_ray(
    model: str,
    source: str,
    output: str,
    format: str,
    shard_mb: float | None,
    quiet: bool,
    workers: dict[str, Any],
    common: dict[str, Any],
) -> None:
    from datamux.cluster.file_job import SHOWN, predict_files
    from datamux.cluster.manifest import Settings, fingerprint_of
    from datamux.cluster.names import FAILED
    from datamux.cluster.ray_session import model_for_workers
    from datamux.cluster.workers import Workers

    settings = Settings(model=model_for_workers(model), format=format, fingerprint=fingerprint_of(model), **common)
    before = time.perf_counter()
    try:
        done = predict_files(
            source,
            output,
            settings,
            Workers(**workers),
            shard_bytes=None if shard_mb is None else round(shard_mb * (1 << 20)),
            progress=not quiet,
        )
    except KeyboardInterrupt:
        typer.echo("interrupted; run the same command again to continue where it stopped", err=True)
        raise
    if done.resumed_after:
        typer.echo(f"continued after {done.resumed_after} of {done.shards} shards", err=True)
    rate = done.new_rows / (time.perf_counter() - before)
    typer.echo(f"{done.rows} rows answered, {rate:,.0f} per second in this run: {output}", err=True)
    _tell_bad(done.bad, done.problems, f"{output}/_errors")
    for one in done.failed[:SHOWN]:
        typer.echo(one["problem"], err=True)
    if done.failed:
        typer.echo(
            f"{len(done.failed)} shards failed, see {output}/{FAILED}; run the same command again to try only them",
            err=True,
        )
    if done.failed or (done.bad and not done.rows):
        raise typer.Exit(1)


def _tell_bad(bad: int, problems: Any, place: str) -> None:
    if bad:
        for problem in problems:
            typer.echo(problem, err=True)
        typer.echo(f"{bad} bad rows: {place}", err=True)
