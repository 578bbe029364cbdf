"""Requests in, answers out: plain asyncio, without any web framework.

    submit(tenant, texts) -> tokenise in a thread -> one queue per tenant -> a pass in a thread -> answers

One loop runs one pass after the other. While a pass runs, texts gather; the next pass takes as many as the gear allows.
Every accepted text is answered exactly once or its caller is told why not: what a failing or hanging pass means is in
`passes.py`, and if the loop itself dies, everybody who waits is told at once.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

from datamux.serve.admission import Admission
from datamux.serve.contract import Engine, Limits, Observer, PassReport, Silence
from datamux.serve.gears import Gear, Gearbox
from datamux.serve.given import passes_of
from datamux.serve.next_pass import NextPass, Reasons
from datamux.serve.passes import Passes
from datamux.serve.queues import Item
from datamux.serve.refusals import BadInput, Overloaded, PassFailed, Refused, TimedOut, Unavailable
from datamux.serve.threads import SHUT_DOWN, TOKENISING, Run, Threads
from datamux.serve.tickets import Answered, Answers, Ticket
from datamux.serve.tokenising import Joined, Rows, letters_of, parts_of, time_for

__all__ = [
    "Answered",
    "Answers",
    "BadInput",
    "Batcher",
    "Engine",
    "Limits",
    "Observer",
    "Overloaded",
    "PassFailed",
    "PassReport",
    "Refused",
    "Silence",
    "TimedOut",
    "Unavailable",
]  # all that its users need

LONGEST_RETRY = 30  # seconds that a refused client is asked to wait, at most
CLIENT_LEFT, TIMED_OUT, STOPPED, FAILED = "client left", "timed out", "server stopped", "failed"

Feed = Callable[[Ticket, Answers], Awaitable[None]]


class Batcher:
    """Call `start` inside a running event loop, `submit` as often as you like, and `close` at the end."""

    def __init__(
        self,
        engine: Engine,
        gearbox: Gearbox,
        limits: Limits | None = None,
        *,
        observer: Observer | None = None,
        run: Run | None = None,
    ) -> None:
        self.engine = engine
        self.gearbox = gearbox
        self.limits = limits or Limits()
        self.observer: Observer = observer or Silence()
        self._next = NextPass(gearbox, self.limits)
        self.queues, self.given = self._next.queues, self._next.given
        self.threads = Threads(run)
        self.started = -math.inf  # when `start` was called, on the event loop's clock
        self._admission = Admission(self.limits, self._waiting_of)
        self._tokeniser = Joined(lambda texts: self.threads(TOKENISING, self.engine.tokenise, texts))
        self._passes = Passes(engine, gearbox, self.limits, self.threads, lambda report: self.observer.passed(report))
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()  # set whenever texts have left the queue
        self._task: asyncio.Task[None] | None = None
        self._tickets: set[Ticket] = set()  # of the requests that are not finished
        self._someone_left = False
        self._closing = False
        self._broken: BaseException | None = None

    # Life

    def start(self) -> None:
        """Start the loop that runs the passes."""
        loop = asyncio.get_running_loop()
        self.started = loop.time()
        self._task = loop.create_task(self._serve())
        self._task.add_done_callback(self._loop_ended)

    async def close(self, grace: float = 30.0) -> None:
        """Accept nothing new, answer what was accepted, and stop. Who still waits after `grace` seconds is told.

        A pass that hangs is not waited for: its callers were told already. May be called again with less grace.
        """
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=0 if self._passes.hung else grace)
            self._task.cancel()
            await asyncio.wait({self._task})  # so that nobody can queue a text that no pass would take
        self._fail_all(Unavailable(SHUT_DOWN))
        self.threads.stop()

    @property
    def healthy(self) -> bool:
        """Whether the loop runs, the model answers, and new requests are accepted."""
        return self.alive and not self._closing

    @property
    def alive(self) -> bool:
        """Whether the loop runs, and neither a pass nor the tokeniser hangs."""
        if self._task is None or self._task.done() or self._passes.hung is not None:
            return False
        return self._tokeniser.busy_for(self._task.get_loop().time()) <= self.limits.pass_timeout

    @property
    def closing(self) -> bool:
        """Whether nothing new is accepted."""
        return self._closing

    @property
    def last_success(self) -> float:
        """When the last pass succeeded, on the event loop's clock."""
        return self._passes.last_success

    @property
    def waiting(self) -> int:
        """How many texts wait for a pass."""
        return self._waiting_of(None)

    def waiting_by_tenant(self) -> Counter[str]:
        """How many texts of each tenant wait for a pass."""
        return Counter(self.queues.tenants()) + self.given.texts

    def _waiting_of(self, tenant: str | None) -> int:
        if tenant is None:
            return len(self.queues) + len(self.given)
        return self.queues.count(tenant) + self.given.texts[tenant]

    # What callers use

    async def submit(
        self,
        tenant: str,
        texts: Sequence[Any],
        *,
        alone: bool = False,
        check: Callable[[Rows, int, int], None] | None = None,
    ) -> Answers:
        """Answers in the order of `texts`. `alone`: none of them shares a group with any other text.

        `check` is given rows before they are queued, how many texts come before them, and how many there are in all; it
        raises what is wrong with them.
        """

        async def feed(ticket: Ticket, answers: Answers) -> None:
            place = 0
            for part in parts_of(texts):
                rows = await self._tokenise(tenant, part, answers)
                if check is not None:
                    check(rows, place, len(texts))
                await self._room(tenant)
                if ticket.gone:
                    return  # an earlier text failed
                arrived = asyncio.get_running_loop().time()
                for row, length in rows:
                    self.queues.add(Item(tenant, row, length, arrived, alone, ticket, place))
                    place += 1
                self._wake.set()

        return await self._accept(tenant, texts, feed)

    async def run_groups(self, tenant: str, groups: Sequence[Sequence[Any]], gear: Gear) -> list[list[Answered]]:
        """The answers of groups that the caller chose, each of at most `gear.group_size` texts.

        They are admitted like other requests and run in the same thread, but no other text joins them.
        """
        largest = max(map(len, groups), default=0)
        if largest > gear.group_size or not all(groups):
            raise BadInput(f"groups must have 1 to {gear.group_size} texts; the largest has {largest}")
        flat = [text for group in groups for text in group]
        ends = [0]
        for group in groups:
            ends.append(ends[-1] + len(group))

        async def feed(ticket: Ticket, answers: Answers) -> None:
            rows: Rows = []
            for part in parts_of(flat):
                rows += await self._tokenise(tenant, part, answers)
            await self._room(tenant)
            if ticket.gone:
                return
            arrived = asyncio.get_running_loop().time()
            alone = gear.group_size == 1
            items = [Item(tenant, row, size, arrived, alone, ticket, place) for place, (row, size) in enumerate(rows)]
            for given in passes_of([items[start:end] for start, end in pairwise(ends)], gear, self.limits):
                self.given.add(given)
            self._wake.set()

        found = await self._accept(tenant, flat, feed)
        return [list(found[start:end]) for start, end in pairwise(ends)]

    def check_room(self, tenant: str) -> None:
        """Raise if a request of this tenant would be refused now: then its body need not be read."""
        self._admit(tenant)

    # Requests

    async def _accept(self, tenant: str, texts: Sequence[Any], feed: Feed) -> Answers:
        """Admit a request, feed its texts to the queue, and wait until all are answered."""
        self._admit(tenant)
        answers = Answers()
        if not texts:
            return answers
        ticket = Ticket(len(texts))
        letters = sum(map(letters_of, texts))
        self._admission.enter(tenant, letters)
        self._tickets.add(ticket)
        why = FAILED
        try:
            await self._fed_and_answered(ticket, answers, feed)
        except asyncio.CancelledError:
            why = CLIENT_LEFT
            raise
        except TimedOut:
            why = TIMED_OUT
            raise
        except Unavailable:
            why = STOPPED
            raise
        finally:
            self._tickets.discard(ticket)
            self._admission.leave(tenant, letters)
            if ticket.left:
                ticket.close()
                self.observer.dropped(tenant, ticket.left, why)
                self._someone_left = True  # nobody waits for the texts that are still queued
            if ticket.left or self._closing:
                self._wake.set()  # to drop them; or closing may be complete
        answers.extend(ticket.answers)
        return answers

    async def _fed_and_answered(self, ticket: Ticket, answers: Answers, feed: Feed) -> None:
        seconds = time_for(len(ticket.answers), self.limits.timeout)
        try:
            async with asyncio.timeout(seconds) as time:

                def stop_feeding() -> None:
                    if not time.expired():
                        time.reschedule(0.0)

                ticket.on_failure = stop_feeding  # a text that fails ends the request, even if others are still to come
                await feed(ticket, answers)
                ticket.on_failure = None
                await ticket.future
        except TimeoutError as error:
            raise ticket.failure or TimedOut(f"not answered within {seconds:g} seconds") from error

    def _admit(self, tenant: str) -> None:
        problem: Refused | None = None
        if self._closing:
            problem = Unavailable("the server is shutting down")
        elif not self.healthy:
            problem = Unavailable("the model does not answer", self._retry_after())
        elif told := self._crowded(tenant):
            problem = Overloaded(f"{told}; try again later", self._retry_after())
        if problem is not None:
            self.observer.refused(tenant, type(problem).__name__)
            raise problem

    def _crowded(self, tenant: str) -> str:
        """Why there is no room for a new request; empty if there is. Nobody is refused because of texts of who left."""
        told = self._admission.problem(tenant)
        if told and self._someone_left:
            self._drop_gone()
            told = self._admission.problem(tenant)
        return told

    def _retry_after(self) -> int:
        return min(LONGEST_RETRY, max(1, math.ceil(self.waiting / max(self._passes.rate, 1.0))))

    async def _tokenise(self, tenant: str, texts: Sequence[Any], answers: Answers) -> Rows:
        self._check_alive()
        self._admission.arriving(tenant, len(texts))
        try:
            started = asyncio.get_running_loop().time()
            rows = await self._tokeniser(tenant, texts)
            answers.tokenising += asyncio.get_running_loop().time() - started
            return rows
        finally:
            self._admission.arriving(tenant, -len(texts))

    async def _room(self, tenant: str) -> None:
        """Wait until there is room for more texts of a request that was accepted."""
        while True:
            self._check_alive()
            if self._admission.has_room(tenant):
                return
            self._moved.clear()
            await self._moved.wait()

    def _check_alive(self) -> None:
        if self._broken is not None or self._task is None or self._task.done():
            raise Unavailable("the server stopped before this text was answered")

    # The loop

    async def _serve(self) -> None:
        while True:
            self._wake.clear()
            if self._someone_left:
                self._drop_gone()  # nothing is awaited from here until a pass is taken, so nobody else can leave
            reasons, remaining = self._next.due(asyncio.get_running_loop().time(), closing=self._closing)
            if reasons:
                await self._pass(reasons)
            elif self._closing and not self._tickets:
                return
            else:
                await self._wait_for_more(remaining)

    async def _pass(self, reasons: Reasons) -> None:
        groups, gear, reason = self._next.take(reasons)
        self._moved.set()
        if not await self._passes.run(groups, gear, reason):
            self._someone_left = True  # who was told of a failure just now may have other texts in the queue

    async def _wait_for_more(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _drop_gone(self) -> None:
        self._someone_left = False
        dropped = self.queues.drop_gone()
        if self.given.drop_gone() or dropped:
            self._moved.set()

    # When things go wrong

    def _loop_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._broken = task.exception()
            self._fail_all(Unavailable("the server's loop has stopped; it must be started again"))

    def _fail_all(self, error: Exception) -> None:
        for ticket in self._tickets:
            ticket.fail(error)
        self.queues.clear()
        self.given.clear()
        self._moved.set()
