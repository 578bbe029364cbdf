"""`datamux serve`: a model behind HTTP, and the keys of its clients."""

import dataclasses
import inspect
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from datamux.cluster.options import Replicas
from datamux.errors import check_choice
from datamux.serve.settings import KEYS_FILE, Settings, flag, variable

RUN = "run"
ENGINES = ("local", "ray")
OPEN = "warning: everyone who reaches this address can use it, until {}"
ADD = "`datamux serve keys add NAME` has made a key"
AGAIN = "it is started again with keys and without --no-keys"
WRITTEN = "the configuration is written again with keys and without --no-keys"


class RunsByDefault(TyperGroup):
    """`datamux serve MODEL` is short for `datamux serve run MODEL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = [RUN, *args]
        return super().parse_args(ctx, args)


serve = typer.Typer(
    cls=RunsByDefault,
    no_args_is_help=True,
    help="Serve a model over HTTP: `datamux serve MODEL`. Texts of two clients never share a group.",
)
keys = typer.Typer(no_args_is_help=True, help="API keys. A key names its tenant; only its hash is stored.")
serve.add_typer(keys, name="keys")
KeyFile = Annotated[Path, typer.Option("--keys", envvar=variable("keys"), help="File of the keys.")]


def run(model: str, engine: str, **options: Any) -> None:
    """Serve a model: `datamux serve MODEL` does the same. Every flag can be given as an environment variable, too.

    On all machines of a Ray cluster: datamux serve sentiment --engine ray --address auto --max-replicas 8
    """
    check_choice("engine", engine, ENGINES)
    copies = {field.name: options.pop(field.name) for field in dataclasses.fields(Replicas)}
    settings, replicas = Settings(**options), Replicas(**copies)
    if engine == "ray":
        _run_on_ray(model, settings, replicas)
    elif replicas != Replicas():
        changed = [flag(name) for name, value in copies.items() if value != getattr(Replicas(), name)]
        raise ValueError(f"{', '.join(changed)} can only be used with --engine ray")
    else:
        _run_here(model, settings)


def _run_here(model: str, settings: Settings) -> None:
    from datamux.serve.app import run_server
    from datamux.serve.logs import set_up_logs
    from datamux.serve.service import load_service

    set_up_logs(settings.log_level)
    service = load_service(model, settings)
    if not service.needs_key:
        _warn(settings, AGAIN if settings.no_keys else ADD)
    run_server(service, lambda address: _tell(model, address))
    typer.echo("stopped")


def _run_on_ray(model: str, settings: Settings, replicas: Replicas) -> None:
    from datamux.cluster.serving import run_on_ray, serves_everyone, write_config
    from datamux.serve.service import keys_of

    if serves_everyone(settings):
        _warn(settings, AGAIN if replicas.write_config is None else WRITTEN)
    if replicas.write_config is not None:
        write_config(Path(replicas.write_config), model, settings, replicas)
        typer.echo(f"written: {replicas.write_config}; `serve deploy {replicas.write_config}` starts it")
        return
    keys_of(settings)  # says so at once if the file that was named is missing
    run_on_ray(model, settings, replicas, lambda address: _tell(model, address))
    typer.echo("stopped")


def _warn(settings: Settings, until: str) -> None:
    if settings.host not in ("127.0.0.1", "::1", "localhost"):
        typer.echo(OPEN.format(until), err=True)


def _tell(model: str, address: str) -> None:
    typer.echo(f"{model} is at {address}; its page for trying it is {address}/")


def _signature() -> inspect.Signature:
    """One option for each of the settings, and those for a cluster."""
    kinds = get_type_hints(Settings) | get_type_hints(Replicas)
    wanted = Annotated[str, typer.Argument(help="Name or folder of a trained or exported model.")]
    parameters = [inspect.Parameter("model", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=wanted)]
    chosen = typer.Option(
        envvar=variable("engine"), help="local serves from this process; ray from a cluster (extra ray)."
    )
    engine = inspect.Parameter(
        "engine", inspect.Parameter.KEYWORD_ONLY, default="local", annotation=Annotated[str, chosen]
    )
    parameters.append(engine)
    for field in (*dataclasses.fields(Settings), *dataclasses.fields(Replicas)):
        option = typer.Option(flag(field.name), envvar=variable(field.name), help=field.metadata["help"])
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[kinds[field.name], option],
            )
        )
    return inspect.Signature(parameters)


run.__signature__ = _signature()  # type: ignore[attr-defined]
run.__annotations__ = {name: parameter.annotation for name, parameter in _signature().parameters.items()}
serve.command(RUN)(run)


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Name of the tenant that the key is for.")],
    file: KeyFile = KEYS_FILE,
) -> None:
    """Make a key and print it. It is printed only this once."""
    from datamux.serve.keys import KeyFile as Keys

    secret = Keys(file).add(name)
    typer.echo(f"The key of {name} follows. Keep it: it is not stored and cannot be shown again.", err=True)
    typer.echo(secret)


@keys.command("list")
def list_keys(file: KeyFile = KEYS_FILE) -> None:
    """Print the names of all keys, and when each was made."""
    from datamux.serve.keys import KeyFile as Keys

    for key in Keys(file).all():
        typer.echo(f"{key.name}\t{key.created}")


@keys.command("remove")
def remove(
    name: Annotated[str, typer.Argument(help="Name of the key.")],
    file: KeyFile = KEYS_FILE,
) -> None:
    """Remove a key. A running server stops accepting it within a second."""
    from datamux.serve.keys import KeyFile as Keys

    Keys(file).remove(name)
    typer.echo(f"removed the key of {name}")
