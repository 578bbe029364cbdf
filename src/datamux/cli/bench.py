"""`datamux bench`: speed and memory against a plain model with the same encoder, and where the time goes."""

from pathlib import Path
from typing import Annotated

import typer

from datamux.cli.options import ENGINES, AsJson, DataDir, Record
from datamux.cli.output import check_can_draw, keep, show_table

bench = typer.Typer(
    no_args_is_help=True,
    help="Measure speed and memory against a plain model with the same encoder, and see where the time goes.",
)
SIZES = [2, 10, 20, 40]
Layers = Annotated[int, typer.Option(min=1, help="Number of layers of the encoder.")]
Hidden = Annotated[int, typer.Option(min=1, help="Width of the encoder.")]
Heads = Annotated[int, typer.Option(min=1, help="Number of attention heads.")]
Sizes = Annotated[
    list[int], typer.Option("--group-size", "-k", min=1, help="Instances per pass; repeat the option for several.")
]
Tokens = Annotated[int, typer.Option(min=1, help="Number of tokens of every instance.")]
HiddenDim = Annotated[
    int | None,
    typer.Option(min=1, help="Width of the demultiplexer's hidden layer. Default: the demultiplexer's usual width."),
]
Demultiplexer = Annotated[str, typer.Option(help="Demultiplexer of the model; gate is ours, index is the paper's.")]
HeadContext = Annotated[int, typer.Option(min=0, help="How many tokens on either side a tagging head sees.")]
Bf16 = Annotated[bool, typer.Option("--bf16", help="Run in half precision.")]
Tagging = Annotated[bool, typer.Option("--tagging", help="Label every token instead of whole texts.")]


def _shape(layers: int, hidden: int, heads: int, tagging: bool) -> dict[str, int | bool]:
    if hidden % heads:
        raise ValueError(f"--hidden {hidden} cannot be divided among --heads {heads}: choose a multiple of {heads}")
    return {"layers": layers, "hidden": hidden, "heads": heads, "token_level": tagging}


@bench.command()
def speed(
    model: Annotated[
        str | None, typer.Option(help="A trained or exported model to measure, instead of new ones.")
    ] = None,
    layers: Layers = 4,
    hidden: Hidden = 256,
    heads: Heads = 4,
    group_size: Sizes = SIZES,
    lengths: Annotated[
        str, typer.Option(help="Tokens per instance: fixed:TOKENS, or a task whose text lengths are used.")
    ] = "fixed:32",
    texts: Annotated[
        bool, typer.Option("--texts", help="Measure from the task's texts to answers, with tokenising.")
    ] = False,
    engine: Annotated[
        list[str], typer.Option(help=f"{ENGINES} Default: torch, or the one that the model was exported for.")
    ] = [],
    demultiplexer: Annotated[
        list[str], typer.Option(help="Demultiplexers to measure; gate is ours, index is the paper's.")
    ] = ["gate", "index"],
    hidden_dim: HiddenDim = None,
    tagging: Tagging = False,
    head_context: HeadContext = 0,
    plain_size: Annotated[
        list[str],
        typer.Option(
            metavar="LAYERSxHIDDEN",
            help="Also measure a plain model of this size, such as 1x64; repeat the option for several.",
        ),
    ] = [],
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="Instances per round. Default: as many as take --seconds. The paper used 20000."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds; every model runs in each of them.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.01, help="Seconds that one model runs in one round.")] = 1.0,
    data_dir: DataDir = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the throughput and the share of the N-fold gain into this file.")
    ] = None,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Measure instances per second of plain and multiplexed models, in turn, each at its best batch size."""
    from rich.console import Console

    from datamux.evaluate.benchmarks import run_speed
    from datamux.evaluate.speed_table import speed_table

    check_can_draw(plot)
    console = Console(stderr=True)
    found = run_speed(
        model=model,
        shape=_shape(layers, hidden, heads, tagging),
        group_sizes=group_size,
        lengths=lengths,
        texts=texts,
        engines=engine,
        demultiplexers=demultiplexer,
        plain_sizes=plain_size,
        hidden_dim=hidden_dim,
        head_context=head_context,
        samples=samples,
        rounds=rounds,
        seconds=seconds,
        data_dir=data_dir,
        tell=lambda text: console.print(text, style="dim"),
    )
    keep(found, record, as_json)
    if plot is not None:
        from datamux.evaluate.plots import draw_speed

        draw_speed(found, plot)
        console.print(f"drawn: {plot}")
    if not as_json:
        show_table(*speed_table(found["results"]))


@bench.command()
def memory(
    layers: Layers = 12,
    hidden: Hidden = 768,
    heads: Heads = 12,
    group_size: Sizes = [1, *SIZES],
    tokens: Tokens = 128,
    groups: Annotated[int, typer.Option(min=1, help="Number of groups in the pass.")] = 60,
    demultiplexer: Demultiplexer = "gate",
    tagging: Tagging = False,
    rounds: Annotated[int, typer.Option(min=1, help="How often each group size is measured; the median counts.")] = 3,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Measure the peak memory of one pass at each group size, each in its own process."""
    from datamux.evaluate.benchmarks import run_memory

    found = run_memory(
        shape=_shape(layers, hidden, heads, tagging),
        group_sizes=group_size,
        tokens=tokens,
        groups=groups,
        demultiplexer=demultiplexer,
        rounds=rounds,
    )
    keep(found, record, as_json)
    if not as_json:
        rows = []
        for r in found["results"]:
            ratio = f"{r['ratio']:.2f}x ({r['lowest']:.2f} to {r['highest']:.2f})"
            rows.append((str(r["group_size"]), f"{r['model']:,.0f}", f"{r['peak']:,.0f}", ratio))
        show_table(("group size", "model, MB", "peak, MB", "against the first row"), rows)


@bench.command()
def breakdown(
    model: Annotated[str | None, typer.Option(help="A trained model to measure, instead of a new one.")] = None,
    layers: Layers = 4,
    hidden: Hidden = 256,
    heads: Heads = 4,
    group_size: Sizes = SIZES,
    tokens: Tokens = 32,
    groups: Annotated[int, typer.Option(min=1, help="Number of groups in a pass.")] = 64,
    bf16: Bf16 = False,
    demultiplexer: Demultiplexer = "gate",
    hidden_dim: HiddenDim = None,
    tagging: Tagging = False,
    head_context: HeadContext = 0,
    texts: Annotated[
        bool, typer.Option("--texts", help="Break down the way from a task's texts to answers; needs --model.")
    ] = False,
    lengths: Annotated[str, typer.Option(metavar="TASK", help="The task whose texts --texts uses.")] = "sst2",
    data_dir: DataDir = None,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Show where the time of a pass goes (ms per group), or, with --texts, from texts to answers (us per text)."""
    from datamux.evaluate.benchmarks import run_breakdown, run_text_breakdown

    if texts:
        if model is None:
            raise ValueError("--texts needs a trained model and its tokenizer: give one with --model FOLDER")
        found = run_text_breakdown(model=model, task=lengths, group_sizes=group_size, bf16=bf16, data_dir=data_dir)
        names, digits, unit = ["tokenise", "pad", "run", "answer"], 1, "us"
    else:
        found = run_breakdown(
            model=model,
            shape=_shape(layers, hidden, heads, tagging),
            group_sizes=group_size,
            tokens=tokens,
            groups=groups,
            bf16=bf16,
            demultiplexer=demultiplexer,
            hidden_dim=hidden_dim,
            head_context=head_context,
        )
        names, digits, unit = ["mixing", "encoder", "demultiplexer", "head", "plain"], 3, "ms"
    keep(found, record, as_json)
    if not as_json:
        rows = [
            (" ".join([str(r["group_size"]), *([r["name"]] if texts else [])]), *(f"{r[n]:.{digits}f}" for n in names))
            for r in found["results"]
        ]
        show_table(("group size", *(f"{name}, {unit}" for name in names)), rows)


@bench.command()
def soak(
    model: Annotated[str, typer.Argument(help="Name or folder of the model to serve.")] = "sentiment",
    texts: Annotated[int, typer.Option(min=1, help="Texts to send.")] = 100_000,
    tenants: Annotated[int, typer.Option(min=1, help="Tenants, each with a key of its own.")] = 5,
    clients: Annotated[int, typer.Option(min=1, help="Clients that send at the same time.")] = 20,
    batch: Annotated[int, typer.Option(min=1, help="Requests have 1, this many, or three times as many texts.")] = 32,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Send many texts through a real server and check every answer: none wrong, lost or doubled, and memory flat."""
    from rich.console import Console

    import datamux
    from datamux.evaluate.records import make_record
    from datamux.serve.service import read_card
    from datamux.serve.soak import is_clean, run_soak

    console = Console(stderr=True)
    found = run_soak(
        datamux.load(model),
        texts=texts,
        tenants=tenants,
        clients=clients,
        batch=batch,
        name=model,
        card=read_card(model),
        tell=lambda text: console.print(text, style="dim"),
    )
    options = {"model": model, "tenants": tenants, "clients": clients, "batch": batch}
    keep(make_record("soak", recipe=None, results=found, **options), record, as_json)
    if not as_json:
        names = ("answered", "wrong", "lost", "doubled", "groups_with_two_tenants", "errors")
        rows = [(name.replace("_", " "), f"{found[name]:,}") for name in names]
        rows.append(("texts per second", f"{found['texts_per_second']:,.0f}"))
        rows.append(("memory growth, MB", f"{found['memory_growth_mb']:,.1f}"))
        show_table(("", ""), rows)
    if not is_clean(found):
        raise typer.Exit(1)


@bench.command("serve")
def bench_serve(
    model: Annotated[
        str | None, typer.Argument(help="Name or folder of the multiplexed model to serve. Not needed with --url.")
    ] = None,
    plain: Annotated[str | None, typer.Option(help="The plain model to serve and to compare with.")] = None,
    url: Annotated[
        str | None, typer.Option(help="Measure a server that runs already, too, such as http://127.0.0.1:8080.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="API key for --url.", envvar="DATAMUX_BENCH_KEY")] = None,
    batch: Annotated[list[int], typer.Option(min=1, help="Texts in one request; repeat the option for several.")] = [
        1,
        32,
    ],
    users: Annotated[
        list[int],
        typer.Option(
            min=1,
            help="Users who send one request after the other; repeat the option for each step of the load. "
            "Default: up to 64 with single texts, up to 32 with batches.",
        ),
    ] = [],
    latency_ms: Annotated[
        float, typer.Option(min=0.1, help="Report the throughput at which 95% of the requests take at most this long.")
    ] = 100.0,
    texts: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Texts to send, one per line. Default: SST-2 if DATAMUX_DATA has it, else the sentences of the demo.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds; every server runs in each of them.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds per server and step, at least.")] = 3.0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads that one pass uses. Default: PyTorch decides.")
    ] = None,
    separate_tenants: Annotated[
        bool,
        typer.Option(
            "--separate-tenants", help="Every user is a tenant of its own, so texts of two users never share a group."
        ),
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Also show where the time of single-text requests goes.")
    ] = False,
    data_dir: DataDir = None,
    plot: Annotated[Path | None, typer.Option(help="Draw throughput and latency into this file.")] = None,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Load real servers with more and more users: the plain model, the multiplexed one, and that at full group size.

    Each server has its own process; all are measured in turn. The load generator (locust) runs on the same machine.
    """
    from rich.console import Console

    from datamux.serve.load.bench import Plan, run_serve
    from datamux.serve.load.table import tables

    check_can_draw(plot)
    console = Console(stderr=True)
    plan = Plan(
        model=model,
        plain=plain,
        url=url,
        key=key,
        batches=tuple(dict.fromkeys(batch)),
        users=users,
        rounds=rounds,
        seconds=seconds,
        latency_ms=latency_ms,
        texts=texts,
        threads=threads,
        separate_tenants=separate_tenants,
        profile=profile,
        data_dir=data_dir,
    )
    found = run_serve(plan, lambda text: console.print(text, style="dim", highlight=False))
    keep(found, record, as_json)
    if plot is not None:
        from datamux.serve.load.plot import draw_serve

        draw_serve(found, plot)
        console.print(f"drawn: {plot}")
    if not as_json:
        for table in tables(found):
            typer.echo(f"\n{table.title}\n")
            show_table(table.columns, table.rows)
            typer.echo("".join(f"\n{note}" for note in table.notes))


@bench.command("cluster")
def bench_cluster(
    model: Annotated[str, typer.Argument(help="Name or folder of the model.")] = "sentiment",
    group_size: Sizes = [1, 20],
    rows: Annotated[
        int, typer.Option(min=1, help="Rows of the runs with the largest group size; smaller ones get a quarter.")
    ] = 100_000,
    more_rows: Annotated[
        list[int],
        typer.Option(
            min=1,
            help="Also measure the largest group size and the most workers with this many rows; repeat for several. "
            "The local engine takes part up to a million rows, because it holds them in memory.",
        ),
    ] = [1_000_000, 10_000_000],
    workers: Annotated[
        list[int], typer.Option(min=1, help="Number of Ray workers, and cores of both engines; repeat for several.")
    ] = [1, 2],
    rounds: Annotated[int, typer.Option(min=1, help="How often the runs of --rows are done; the median counts.")] = 3,
    task: Annotated[str, typer.Option(help="The task whose training texts the rows are made of.")] = "sst2",
    data_dir: DataDir = None,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Measure `predict --engine ray` against the local engine: speed, start-up, and memory of the driver.

    Every run has its own process and cores. Rows are real texts with their words in random order. With the defaults it
    takes about 35 minutes on two cores. Interrupted with --record, it goes on with the run that was under way.
    """
    from rich.console import Console

    from datamux.cluster.cost import measured_table
    from datamux.cluster.measuring import Plan, measure_cluster

    console = Console(stderr=True)
    plan = Plan(model, group_size, rows, more_rows, workers, rounds, task, data_dir)
    journal = None if record is None else record.with_name(record.name + ".runs")
    found = measure_cluster(plan, lambda text: console.print(text, style="dim", highlight=False), journal)
    keep(found, record, as_json)
    if not as_json:
        show_table(*measured_table(found))
