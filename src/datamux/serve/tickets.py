"""One request that waits for its answers: a single future, however many texts it has."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from datamux.serve.gears import Gear


def named(place: int, texts: int) -> str:
    """How an error names one of the texts of a request; `place` counts from 0."""
    return "this text" if texts == 1 else f"text {place + 1} of {texts}"


class Answered(NamedTuple):
    """One text's answer, and how it came about."""

    answer: Any
    gear: Gear
    group: int  # a number that the texts of one group share
    slot: int
    group_size: int  # how many texts really shared the group
    queued: float  # seconds between arrival and pass
    ran: float  # seconds that the pass took
    number: int  # of the pass


class Answers(list[Answered]):
    """The answers of one request, in the order of its texts."""

    tokenising = 0.0  # seconds


class Ticket:
    """One request that waits: its texts are answered one by one, and its future when all of them are.

    `on_failure` is called if it fails; whoever still brings its texts can stop then.
    """

    __slots__ = ("answers", "future", "left", "on_failure")

    def __init__(self, texts: int) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answers: list[Any] = [None] * texts
        self.left = texts
        self.on_failure: Callable[[], None] | None = None

    @property
    def gone(self) -> bool:
        """Whether nobody waits any more: the client has left, or was told of a failure."""
        return self.future.done()

    def answer(self, place: int, answered: Answered) -> None:
        if self.answers[place] is None:
            self.answers[place] = answered
            self.left -= 1
            if not self.left and not self.future.done():
                self.future.set_result(None)

    def named(self, place: int) -> str:
        """How an error names one of its texts."""
        return named(place, len(self.answers))

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            if self.on_failure is not None:
                self.on_failure()

    @property
    def failure(self) -> BaseException | None:
        """What its caller is to be told, if it failed."""
        return self.future.exception() if self.future.done() and not self.future.cancelled() else None

    def close(self) -> None:
        """Nobody waits any more."""
        if not self.future.cancel() and not self.future.cancelled():
            self.future.exception()  # asyncio complains about errors that nobody has looked at
