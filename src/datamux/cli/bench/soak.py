"""`datamux bench soak`: many texts through a real server, with every answer checked."""

from typing import Annotated

import typer

from datamux.cli.options import AsJson, Record
from datamux.cli.output import keep, show_table


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
