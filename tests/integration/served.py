"""A real server in a thread of this process, for tests that speak to it from outside."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from datamux.serve.app import make_server
from datamux.serve.service import Service, load_service
from datamux.serve.settings import Settings


@contextmanager
def serving(model: str | Service, **settings: object) -> Iterator[str]:
    """The address of a server that runs until the block ends. Without `keys` it asks for none."""
    chosen = {"port": 0, "no_keys": "keys" not in settings, **settings}
    service = load_service(model, Settings(**chosen)) if isinstance(model, str) else model
    ready, addresses = threading.Event(), []

    def listening(address: str) -> None:
        addresses.append(address)
        ready.set()

    server = make_server(service, listening)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(30), "the server did not start"
    yield addresses[0]
    server.should_exit = True
    thread.join(30)
