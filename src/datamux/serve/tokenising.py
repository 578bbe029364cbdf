"""Requests that arrive together are tokenised together: one call for all of them costs much less than one for each.

A call is bounded, and tenants take turns, one part of a request each. So nobody waits for much more than one call,
however many or long the texts of others are. What a client that has left had brought is not tokenised.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from datamux.serve.refusals import Unavailable

MOST = 256  # parts of requests in one call
FEED = 256  # texts in one part
LETTERS = 65_536  # characters in one part, and in one call; only a single text may have more
Rows = list[tuple[Any, int]]  # of each text its row and how many tokens it has


def letters_of(text: Any) -> int:
    """How many characters a text has, or a pair, or a list of words. Each word counts one more, even an empty one."""
    if isinstance(text, str):
        return len(text)
    return sum(letters_of(part) + 1 for part in (text.values() if isinstance(text, dict) else text))


def parts_of(texts: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The texts of one request, divided into parts that are tokenised and queued together."""
    start = letters = 0
    for place, text in enumerate(texts):
        more = letters_of(text)
        if place > start and (place - start == FEED or letters + more > LETTERS):
            yield texts[start:place]
            start, letters = place, 0
        letters += more
    if start < len(texts):
        yield texts[start:]


def time_for(texts: int, timeout: float) -> float:
    """Seconds that a request with so many texts may take, where `timeout` is the time for one part."""
    return timeout * max(1, -(-texts // FEED))


@dataclass(eq=False, slots=True)
class Part:
    """Texts that wait for being tokenised, and who waits for their rows."""

    texts: Sequence[Any]
    letters: int
    future: "asyncio.Future[Rows]"


class Joined:
    """Tokenises what several requests bring in one call: what comes while the call before is running."""

    def __init__(self, tokenise: Callable[[Sequence[Any]], Awaitable[Rows]]) -> None:
        self._tokenise = tokenise
        self._waiting: OrderedDict[str, OrderedDict[Part, None]] = OrderedDict()  # by tenant, in order of their turns
        self._task: asyncio.Task[None] | None = None
        self._began: float | None = None  # when the call that runs now began, on the event loop's clock

    def busy_for(self, now: float) -> float:
        """For how many seconds the call that runs now has been running; 0 if none does."""
        return 0.0 if self._began is None else now - self._began

    async def __call__(self, tenant: str, texts: Sequence[Any]) -> Rows:
        loop = asyncio.get_running_loop()
        part = Part(texts, sum(map(letters_of, texts)), loop.create_future())
        self._waiting.setdefault(tenant, OrderedDict())[part] = None
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())
        try:
            return await part.future
        except asyncio.CancelledError:
            self._forget(tenant, part)
            raise

    def _forget(self, tenant: str, part: Part) -> None:
        parts = self._waiting.get(tenant)
        if parts is not None and part in parts:
            del parts[part]
            if not parts:
                del self._waiting[tenant]

    async def _run(self) -> None:
        while self._waiting:
            await self._together(self._take())

    def _take(self) -> list[Part]:
        """The parts of the next call: one of each tenant in turn, as many as a call may hold."""
        taken: list[Part] = []
        letters = 0
        while self._waiting and len(taken) < MOST:
            tenant, parts = next(iter(self._waiting.items()))
            part = next(iter(parts))
            if taken and letters + part.letters > LETTERS:
                break
            del parts[part]
            if parts:
                self._waiting.move_to_end(tenant)
            else:
                del self._waiting[tenant]
            letters += part.letters
            taken.append(part)
        return taken

    async def _together(self, parts: list[Part]) -> None:
        """Tokenise these parts. After an error try each half, so that only the part with the bad text is told so."""
        parts = [part for part in parts if not part.future.done()]
        if not parts:
            return
        try:
            self._began = asyncio.get_running_loop().time()
            try:
                rows = await self._tokenise([text for part in parts for text in part.texts])
            finally:
                self._began = None
        except asyncio.CancelledError:
            waiting = [part for parts in self._waiting.values() for part in parts]
            self._waiting.clear()
            self._fail(parts + waiting, Unavailable("the server was shut down"))
            raise
        except Exception as error:
            if len(parts) == 1:
                self._fail(parts, error)
                return
            half = len(parts) // 2
            await self._together(parts[:half])
            await self._together(parts[half:])
            return
        start = 0
        for part in parts:
            if not part.future.done():
                part.future.set_result(rows[start : start + len(part.texts)])
            start += len(part.texts)

    @staticmethod
    def _fail(parts: Sequence[Part], error: Exception) -> None:
        for part in parts:
            if not part.future.done():
                part.future.set_exception(error)
