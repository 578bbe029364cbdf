"""A real server in a thread of this process, for benchmarks and tests. It stops when the block ends."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from datamux.serve.app import Server, make_server
from datamux.serve.service import Service

PATIENCE = 30.0  # seconds for starting, and for stopping


@contextmanager
def running(service: Service) -> Iterator[str]:
    """The address of a running server."""
    with running_server(make_server(service)) as (url, _):
        yield url


@contextmanager
def running_server(
    server: Server, around: Callable[[Callable[[], None]], None] = lambda run: run()
) -> Iterator[tuple[str, threading.Thread]]:
    """The address of a running server, and the thread of its event loop. `around` is called there to run it."""
    ready, address = threading.Event(), []

    def listening(url: str) -> None:
        address.append(url)
        ready.set()

    server.listening = listening
    thread = threading.Thread(target=around, args=(server.run,), daemon=True)
    thread.start()
    try:
        if not ready.wait(PATIENCE):
            raise RuntimeError("the server did not start")
        yield address[0], thread
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        if thread.is_alive():
            raise RuntimeError("the server did not stop")
