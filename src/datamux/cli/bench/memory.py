"""`datamux bench memory`: the peak memory of one pass."""

from typing import Annotated

import typer

from datamux.cli.bench.options import SIZES, Demultiplexer, Heads, Hidden, Layers, Sizes, Tagging, Tokens, shape_of
from datamux.cli.options import AsJson, Record
from datamux.cli.output import keep, show_table


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
        shape=shape_of(layers, hidden, heads, tagging),
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
