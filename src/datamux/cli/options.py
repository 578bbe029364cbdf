"""Options that several commands have, said once."""

from pathlib import Path
from typing import Annotated

import typer

Split = Annotated[list[str], typer.Option(help="Split; several are scored together.")]
GroupSizes = Annotated[list[int], typer.Option("--group-size", "-k", min=1, help="Default: 1, 2, 5, 10, 20, 40, n.")]
Groupings = Annotated[int, typer.Option(min=1, help="Random groupings for each group size.")]
ENGINES = "torch, bf16, compiled, onnx, int8, openvino."
Engines = Annotated[list[str], typer.Option(help=ENGINES)]
DataDir = Annotated[str | None, typer.Option(help="Folder of local data sets (or DATAMUX_DATA).")]
TextColumns = Annotated[list[str], typer.Option(help="Column of the text in a file of your own; twice for pairs.")]
LabelColumn = Annotated[str, typer.Option(help="Column of the label in a file of your own.")]
TokenLevel = Annotated[bool, typer.Option("--token-level", help="A csv or tsv of words and tags, separated by spaces.")]
Record = Annotated[Path | None, typer.Option(help="Write a run record to this file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
