"""The two threads beside the event loop: one tokenises, and one runs the model."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

from datamux.serve.refusals import Unavailable

TOKENISING, MODEL = NAMES = ("datamux-tokenising", "datamux-model")
SHUT_DOWN = "the server was shut down before this text was answered"

Run = Callable[..., Awaitable[Any]]


class Threads:
    """Runs work in one of the threads, which is named. `run` takes their place where a test controls the time."""

    def __init__(self, run: Run | None = None) -> None:
        self._run = run
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._last: dict[str, Future[Any]] = {}  # what each thread was given last
        self._stopped = Event()

    async def __call__(self, name: str, work: Callable[..., Any], *given: Any) -> Any:
        if self._stopped.is_set():
            raise Unavailable(SHUT_DOWN)
        if self._run is not None:
            return await self._run(work, *given)
        if name not in self._threads:
            self._threads[name] = ThreadPoolExecutor(1, thread_name_prefix=name)
        future = self._last[name] = self._threads[name].submit(work, *given)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if self._stopped.is_set() and future.cancelled():
                raise Unavailable(SHUT_DOWN) from None  # nobody cancelled the caller: the thread will not do it
            raise

    @property
    def busy(self) -> bool:
        """Whether a thread still works. At its end, Python waits for such a thread, even if it hangs."""
        return any(not work.done() for work in self._last.values())

    def stop(self) -> None:
        """Take no more work. What has not begun is not done; what runs is not waited for."""
        self._stopped.set()
        for thread in self._threads.values():
            thread.shutdown(wait=False, cancel_futures=True)
