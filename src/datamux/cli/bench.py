"""`datamux bench`: throughput and memory against the same encoder with tuned ordinary batching."""

from pathlib import Path
from typing import Annotated

import typer

from datamux.cli.options import ENGINES, AsJson, DataDir, Record
from datamux.cli.output import check_can_draw, keep, show_table

bench = typer.Typer(no_args_is_help=True, help="Throughput and memory against the plain model at its best batch size.")
SIZES = [2, 10, 20, 40]
Layers = Annotated[int, typer.Option(min=1, help="Layers of the encoder.")]
Hidden = Annotated[int, typer.Option(min=1, help="Width of the encoder.")]
Heads = Annotated[int, typer.Option(min=1, help="Attention heads.")]
Sizes = Annotated[
    list[int], typer.Option("--group-size", "-k", min=1, help="Group sizes; repeat the option for several.")
]
Tokens = Annotated[int, typer.Option(min=1, help="Tokens of every instance.")]
HiddenDim = Annotated[
    int | None, typer.Option(min=1, help="Width of the demultiplexer's hidden layer. Default: its own.")
]
HeadContext = Annotated[int, typer.Option(min=0, help="Tokens on either side that a tagging head sees.")]
Bf16 = Annotated[bool, typer.Option("--bf16", help="Run in half precision.")]
Tagging = Annotated[bool, typer.Option("--tagging", help="A label a token: every position is taken apart.")]


def _shape(layers: int, hidden: int, heads: int, tagging: bool) -> dict[str, int | bool]:
    if hidden % heads:
        raise ValueError(f"--hidden {hidden} cannot be split among --heads {heads}: choose a multiple of it")
    return {"layers": layers, "hidden": hidden, "heads": heads, "token_level": tagging}


@bench.command()
def speed(
    model: Annotated[
        str | None, typer.Option(help="A trained or exported model: its shape, tokenizer, weights.")
    ] = None,
    layers: Layers = 4,
    hidden: Hidden = 256,
    heads: Heads = 4,
    group_size: Sizes = SIZES,
    lengths: Annotated[str, typer.Option(help="fixed:TOKENS, or a task whose lengths are used.")] = "fixed:32",
    texts: Annotated[bool, typer.Option("--texts", help="From the task's texts, tokenising included.")] = False,
    engine: Annotated[
        list[str], typer.Option(help=f"{ENGINES} Default: torch, or what the model was exported for.")
    ] = [],
    demultiplexer: Annotated[list[str], typer.Option(help="Ours, and the paper's (index) beside it.")] = [
        "gate",
        "index",
    ],
    hidden_dim: HiddenDim = None,
    tagging: Tagging = False,
    head_context: HeadContext = 0,
    bypass: Annotated[
        bool, typer.Option("--bypass", help="Let the head see each instance's own vectors, too.")
    ] = False,
    also: Annotated[
        list[str],
        typer.Option(metavar="LAYERSxHIDDEN", help="A smaller plain model besides, such as 1x64; repeatable."),
    ] = [],
    samples: Annotated[int | None, typer.Option(min=1, help="Instances a round; the paper's run is 20000.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; every contender runs in each.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.01, help="Time of one contender in one round.")] = 1.0,
    data_dir: DataDir = None,
    plot: Annotated[Path | None, typer.Option(help="Draw throughput and efficiency into this file.")] = None,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Instances a second: plain and multiplexed in one run, interleaved, each at its best batch size."""
    from rich.console import Console

    from datamux.evaluate.bench import run_speed
    from datamux.evaluate.ratios import ratio_cells, ratio_titles, share_cell

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
        also=also,
        hidden_dim=hidden_dim,
        head_context=head_context,
        bypass=bypass,
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
        rows = found["results"]
        cells = [
            (row["name"], f"{row['rate']:,.0f}", *ratios, share_cell(row), str(row["positions"]))
            for row, ratios in zip(rows, ratio_cells(rows), strict=True)
        ]
        show_table(("", "instances/s", *ratio_titles(rows), "of the limit", "positions a pass"), cells)


@bench.command()
def memory(
    layers: Layers = 12,
    hidden: Hidden = 768,
    heads: Heads = 12,
    group_size: Sizes = [1, *SIZES],
    tokens: Tokens = 128,
    groups: Annotated[int, typer.Option(min=1, help="Groups in the one pass.")] = 60,
    demultiplexer: Annotated[str, typer.Option(help="Ours, or the paper's (index).")] = "gate",
    tagging: Tagging = False,
    rounds: Annotated[int, typer.Option(min=1, help="Processes for each point, of which the median counts.")] = 3,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Peak memory of one pass against the group size, each point in its own process."""
    from datamux.evaluate.bench import run_memory

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
        rows = [
            (str(r["group_size"]), f"{r['model']:,.0f}", f"{r['peak']:,.0f}",
             f"{r['ratio']:.2f}x ({r['lowest']:.2f} to {r['highest']:.2f})")
            for r in found["results"]
        ]  # fmt: skip
        show_table(("group size", "model, MB", "peak, MB", "against the first row"), rows)


@bench.command()
def parts(
    model: Annotated[str | None, typer.Option(help="A trained model: its shape, tokenizer, weights.")] = None,
    layers: Layers = 4,
    hidden: Hidden = 256,
    heads: Heads = 4,
    group_size: Sizes = SIZES,
    tokens: Tokens = 32,
    groups: Annotated[int, typer.Option(min=1, help="Groups in a pass.")] = 64,
    bf16: Bf16 = False,
    demultiplexer: Annotated[str, typer.Option(help="Ours, or the paper's (index).")] = "gate",
    hidden_dim: HiddenDim = None,
    tagging: Tagging = False,
    head_context: HeadContext = 0,
    texts: Annotated[bool, typer.Option("--texts", help="From a task's texts to answers; needs a model.")] = False,
    lengths: Annotated[str, typer.Option(metavar="TASK", help="Whose texts.")] = "sst2",
    data_dir: DataDir = None,
    record: Record = None,
    as_json: AsJson = False,
) -> None:
    """Where the time of a pass goes, in ms a group; with --texts, from texts to answers, in microseconds a text."""
    from datamux.evaluate.bench import run_parts, run_text_parts

    if texts:
        if model is None:
            raise ValueError("--texts needs a trained model, for its tokenizer: --model FOLDER")
        found = run_text_parts(model=model, task=lengths, group_sizes=group_size, bf16=bf16, data_dir=data_dir)
        names, digits, unit = ["tokenise", "pad", "run", "answer"], 1, "us"
    else:
        found = run_parts(
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
