"""`datamux export`: write a trained model as an ONNX or OpenVINO file, after comparing it with the original."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[str, typer.Argument(help="Folder or name of a trained model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write; it must be empty.")],
    to: Annotated[str, typer.Option(help="The format: onnx or openvino.")] = "onnx",
    int8: Annotated[bool, typer.Option("--int8", help="Store weights in 8 bits (only with onnx).")] = False,
    texts: Annotated[
        Path | None, typer.Option(help="A text file with one text per line; answers for these are compared as well.")
    ] = None,
) -> None:
    """Export a model for any group size and text length. If its answers differ from the model's, nothing is written."""
    from datamux.inference.export import export_model

    lines = [] if texts is None else texts.read_text(encoding="utf-8").splitlines()
    for parity in export_model(model, output, to, int8=int8, texts=lines):
        typer.echo(
            f"group size {parity.group_size}: logits differ by at most {parity.largest_difference:.2g}, "
            f"{parity.equal_answers:.1%} of {parity.rows} answers are equal"
        )
    typer.echo(f"exported: {output}")
