"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Split = Annotated[list[str], typer.Option(help="The split to score; repeat the option to score several together.")]
GroupSizes = Annotated[
    list[int],
    typer.Option(
        "--group-size",
        "-k",
        min=1,
        help="Texts per pass; repeat the option for several. Default: 1, 2, 5, 10, 20, 40, and all slots.",
    ),
]
Groupings = Annotated[int, typer.Option(min=1, help="Number of random groupings for each group size.")]
ENGINES = "Engines: torch, bf16, compiled, onnx, int8, openvino."
Engines = Annotated[list[str], typer.Option(help=ENGINES)]
DataDir = Annotated[str | None, typer.Option(help="Folder with local data sets. Default: DATAMUX_DATA.")]
TextColumns = Annotated[
    list[str], typer.Option(help="The column with the text in your own file; give it twice for pairs.")
]
LabelColumn = Annotated[str, typer.Option(help="The column with the label in your own file.")]
TokenLevel = Annotated[
    bool, typer.Option("--token-level", help="The csv or tsv file holds words and tags, separated by spaces.")
]
Record = Annotated[Path | None, typer.Option(help="Write a run record (JSON) to this file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
