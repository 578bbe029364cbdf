"""Options that several benchmarks share."""

from typing import Annotated

import typer

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


def shape_of(layers: int, hidden: int, heads: int, tagging: bool) -> dict[str, int | bool]:
    if hidden % heads:
        raise ValueError(f"--hidden {hidden} cannot be divided among --heads {heads}: choose a multiple of {heads}")
    return {"layers": layers, "hidden": hidden, "heads": heads, "token_level": tagging}
