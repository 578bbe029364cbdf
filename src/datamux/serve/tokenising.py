"""Requests that arrive together are tokenised together: one call for all of them costs much less than one for each."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from datamux.serve.refusals import Unavailable

MOST = 256  # requests in one call
Rows = list[tuple[Any, int]]  # of each text its row and how many tokens it has


class Joined:
    """Tokenises what several requests bring in one call: all that comes while the call before is running."""

    def __init__(self, tokenise: Callable[[Sequence[Any]], Awaitable[Rows]]) -> None:
        self._tokenise = tokenise
        self._waiting: list[tuple[Sequence[Any], asyncio.Future[Rows]]] = []
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, texts: Sequence[Any]) -> Rows:
        future: asyncio.Future[Rows] = asyncio.get_running_loop().create_future()
        self._waiting.append((texts, future))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            try:
                rows = await self._tokenise([text for texts, _ in some for text in texts])
            except BaseException as error:
                if len(some) > 1 and isinstance(error, Exception):
                    for one in some:  # only the request whose text is wrong is told so
                        await self._one(*one)
                    continue
                self._fail(some, error)
                continue
            start = 0
            for texts, future in some:
                if not future.done():
                    future.set_result(rows[start : start + len(texts)])
                start += len(texts)

    async def _one(self, texts: Sequence[Any], future: "asyncio.Future[Rows]") -> None:
        try:
            rows = await self._tokenise(texts)
        except BaseException as error:
            self._fail([(texts, future)], error)
        else:
            if not future.done():
                future.set_result(rows)

    @staticmethod
    def _fail(some: Sequence[tuple[Sequence[Any], "asyncio.Future[Rows]"]], error: BaseException) -> None:
        told = error if isinstance(error, Exception) else Unavailable("the server was shut down")
        for _, future in some:
            if not future.done():
                future.set_exception(told)
