"""`datamux bench breakdown`: where the time of a pass goes."""

from typing import Annotated

import typer

from datamux.cli.bench.options import (
    SIZES,
    Bf16,
    Demultiplexer,
    HeadContext,
    Heads,
    Hidden,
    HiddenDim,
    Layers,
    Sizes,
    Tagging,
    Tokens,
    shape_of,
)
from datamux.cli.options import AsJson, DataDir, Record
from datamux.cli.output import keep, show_table


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
            shape=shape_of(layers, hidden, heads, tagging),
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
