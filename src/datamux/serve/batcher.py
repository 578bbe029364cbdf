"""Requests in, answers out: plain asyncio, without any web framework.

    submit(tenant, texts) -> tokenise in a thread -> one queue per tenant -> a pass in a thread -> answers

One loop runs one pass after the other. While a pass runs, texts gather; the next pass takes as many as the gear allows.
Every accepted text is answered exactly once or its caller is told why not: a pass that fails is tried again one text at
a time, a pass that hangs fails its callers, and if the loop itself dies, everybody who waits is told at once.
"""

import asyncio
import logging
import math
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Literal

from datamux.serve.contract import Engine, Limits, Observer, PassReport, Silence
from datamux.serve.gears import Gear, Gearbox
from datamux.serve.queues import Group, Item, TenantQueues
from datamux.serve.refusals import BadInput, Overloaded, PassFailed, Refused, TimedOut, Unavailable
from datamux.serve.tickets import Answered, Answers, Ticket
from datamux.serve.tokenising import Joined, Rows

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

logger = logging.getLogger(__name__)
FEED = 256  # how many texts of one request are tokenised and queued together
SMOOTHING = 0.2  # how much the last pass counts in the measured rate
THREADS = ("datamux-tokenising", "datamux-model")  # the names of the two threads
LONGEST_RETRY = 30  # seconds that a refused client is asked to wait, at most

Run = Callable[..., Awaitable[Any]]
Outcome = Literal["ok", "failed", "hung"]  # of a pass


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
        self.queues = TenantQueues()
        self.rate = 0.0  # texts per second, of the last passes
        self.last_success = -math.inf  # when the last pass succeeded, on the event loop's clock
        self._run = run
        self._threads: list[ThreadPoolExecutor] = []
        self._in_threads: dict[int, Future[Any]] = {}  # what each thread was given last
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()  # set whenever texts have left the queue
        self._task: asyncio.Task[None] | None = None
        self._flying: list[Item] = []  # the texts of the pass that runs
        self._given: deque[tuple[list[Group], Gear]] = deque()  # passes whose groups the caller chose
        self._accepted = 0  # requests that are not finished
        self._tokeniser = Joined(lambda texts: self._in_thread(0, self.engine.tokenise, texts))
        self._arriving: Counter[str] = Counter()  # texts that are accepted and not queued yet, by tenant
        self._someone_left = False
        self._ran_alone = False  # whether the last pass was of texts that may not share a group
        self._hung: asyncio.Future[Any] | None = None  # the pass that takes too long
        self._closing = False
        self._broken: BaseException | None = None
        self._group_number = 0
        self._pass_number = 0

    # Life

    def start(self) -> None:
        """Start the loop that runs the passes."""
        self._task = asyncio.get_running_loop().create_task(self._serve())
        self._task.add_done_callback(self._loop_ended)

    async def close(self, grace: float = 30.0) -> None:
        """Accept nothing new, answer what was accepted, and stop. Who still waits after `grace` seconds is told.

        A pass that hangs is not waited for: its callers were told already. May be called again with less grace.
        """
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=0 if self._hung else grace)
            self._task.cancel()
            await asyncio.wait({self._task})  # so that nobody can queue a text that no pass would take
        self._fail_all(Unavailable("the server was shut down before this text was answered"))
        for threads in self._threads:
            threads.shutdown(wait=False, cancel_futures=True)

    @property
    def healthy(self) -> bool:
        """Whether the loop runs, the model answers, and new requests are accepted."""
        return self.alive and not self._closing

    @property
    def alive(self) -> bool:
        """Whether the loop runs and no pass hangs."""
        return self._task is not None and not self._task.done() and self._hung is None

    @property
    def closing(self) -> bool:
        """Whether nothing new is accepted."""
        return self._closing

    @property
    def busy(self) -> bool:
        """Whether a thread still works. At its end, Python waits for such a thread, even if it hangs."""
        return any(not work.done() for work in self._in_threads.values())

    @property
    def waiting(self) -> int:
        """How many texts wait for a pass."""
        return len(self.queues) + sum(self._given_texts().values())

    def waiting_by_tenant(self) -> Counter[str]:
        """How many texts of each tenant wait for a pass."""
        return Counter(self.queues.tenants()) + self._given_texts()

    def _given_texts(self) -> Counter[str]:
        """How many texts of each tenant wait in groups that the caller chose."""
        counts: Counter[str] = Counter()
        for groups, _ in self._given:
            for group in groups:
                counts[group[0].tenant] += len(group)
        return counts

    def _waiting_of(self, tenant: str) -> int:
        return self.queues.count(tenant) + self._given_texts()[tenant]

    # What callers use

    async def submit(
        self,
        tenant: str,
        texts: Sequence[Any],
        *,
        alone: bool = False,
        tokenise: Callable[[Sequence[Any]], Rows] | None = None,
    ) -> Answers:
        """Answers in the order of `texts`. `alone`: none of them shares a group with any other text.

        `tokenise` replaces the engine's own.
        """

        async def feed(ticket: Ticket, answers: Answers) -> None:
            place = 0
            for start in range(0, len(texts), FEED):
                some = texts[start : start + FEED]
                rows = await self._tokenise(tenant, some, tokenise, answers)
                await self._room(tenant)
                if ticket.gone:
                    return  # an earlier text failed
                arrived = asyncio.get_running_loop().time()
                for row, length in rows:
                    self.queues.add(Item(tenant, row, length, arrived, alone, ticket, place))
                    place += 1
                self._wake.set()

        return await self._accept(tenant, len(texts), feed)

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
            rows = await self._tokenise(tenant, flat, None, answers)
            await self._room(tenant)
            arrived = asyncio.get_running_loop().time()
            alone = gear.group_size == 1
            items = [Item(tenant, row, size, arrived, alone, ticket, place) for place, (row, size) in enumerate(rows)]
            for some in self._passes_of([items[start:end] for start, end in pairwise(ends)], gear):
                self._given.append((some, gear))
            self._wake.set()

        found = await self._accept(tenant, len(flat), feed)
        return [list(found[start:end]) for start, end in pairwise(ends)]

    async def _accept(self, tenant: str, texts: int, feed: Callable[[Ticket, Answers], Awaitable[None]]) -> Answers:
        """Admit a request, feed its texts to the queue, and wait until all are answered."""
        self._admit(tenant)
        answers = Answers()
        if not texts:
            return answers
        ticket = Ticket(texts)
        self._accepted += 1
        try:
            async with asyncio.timeout(self.limits.timeout):
                await feed(ticket, answers)
                await ticket.future
        except TimeoutError as error:
            raise TimedOut(f"not answered within {self.limits.timeout:g} seconds") from error
        finally:
            self._accepted -= 1
            if ticket.left:
                ticket.close()
                self._someone_left = True  # nobody waits for the texts that are still queued
            if ticket.left or self._closing:
                self._wake.set()  # to drop them; or closing may be complete
        answers.extend(ticket.answers)
        return answers

    async def _tokenise(
        self, tenant: str, texts: Sequence[Any], tokenise: Callable[..., Any] | None, answers: Answers
    ) -> Rows:
        self._check_alive()
        self._arriving[tenant] += len(texts)
        try:
            started = asyncio.get_running_loop().time()
            if tokenise is None:
                rows = await self._tokeniser(texts)
            else:
                rows = await self._in_thread(0, tokenise, texts)
            answers.tokenising += asyncio.get_running_loop().time() - started
            return rows
        finally:
            self._arriving[tenant] -= len(texts)
            if not self._arriving[tenant]:
                del self._arriving[tenant]

    def _passes_of(self, groups: list[Group], gear: Gear) -> list[list[Group]]:
        """Given groups, divided into passes that keep the limits."""
        most = 1 if gear.group_size == 1 and not gear.independent else self.limits.max_groups
        passes: list[list[Group]] = []
        longest = 0
        for group in groups:
            length = max(item.length for item in group)
            longest = max(longest, length)
            full = not passes or len(passes[-1]) >= most
            if full or longest * (len(passes[-1]) + 1) > self.limits.max_tokens:
                passes.append([])
                longest = length
            passes[-1].append(group)
        return passes

    def _admit(self, tenant: str) -> None:
        """Refuse a request while the queue is full. One rule for single texts and for batches."""
        problem: Refused | None = None
        if self._closing:
            problem = Unavailable("the server is shutting down")
        elif not self.healthy:
            problem = Unavailable("the model does not answer", self._retry_after())
        elif (waiting := self.waiting + self._arriving.total()) >= self.limits.max_queue:
            problem = Overloaded(f"{waiting} texts wait already; try again later", self._retry_after())
        elif (waiting := self._waiting_of(tenant) + self._arriving[tenant]) >= self.limits.max_tenant_queue:
            problem = Overloaded(f"{waiting} texts of this tenant wait already; try again later", self._retry_after())
        if problem is not None:
            self.observer.refused(tenant, type(problem).__name__)
            raise problem

    def _retry_after(self) -> int:
        return min(LONGEST_RETRY, max(1, math.ceil(self.waiting / max(self.rate, 1.0))))

    async def _room(self, tenant: str) -> None:
        """Wait until there is room for more texts of a request that was accepted."""
        while True:
            self._check_alive()
            full = self.waiting >= self.limits.max_queue
            if not full and self._waiting_of(tenant) < self.limits.max_tenant_queue:
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
                self._drop_gone()
            if self._given:
                await self._pass(*self._given.popleft(), "given")
            oldest, reason, remaining = self._next()
            if oldest is not None:
                gear, groups = self._take(oldest)
                await self._pass(groups, gear, reason)
            elif self._given:
                continue
            elif self._closing and not self._accepted:
                return
            else:
                await self._wait_for_more(remaining)

    def _next(self) -> tuple[Item | None, str, float | None]:
        """The text whose pass should start now, and why; or how long to wait for more texts, None if none wait.

        Texts that may share a group and texts that may not take turns, so that many of one kind cannot push a text of
        the other kind back.
        """
        waits = []
        for alone in (not self._ran_alone, self._ran_alone):
            oldest = self.queues.oldest(alone)
            if oldest is None:
                continue
            reason, remaining = self._reason(oldest)
            if reason:
                return oldest, reason, 0.0
            waits.append(remaining)
        return None, "", min(waits, default=None)

    def _drop_gone(self) -> None:
        self._someone_left = False
        dropped = self.queues.drop_gone()
        for some in [some for some in self._given if some[0][0][0].caller.gone]:
            self._given.remove(some)
            dropped += [item for group in some[0] for item in group]
        for item in dropped:
            self.observer.dropped(item.tenant)
        if dropped:
            self._moved.set()

    def _reason(self, oldest: Item) -> tuple[str, float]:
        """Why a pass should start now, or an empty reason and how long to wait for more texts."""
        if self._closing:
            return "closing", 0.0
        fastest = self.gearbox.fastest
        largest = 1.0 if oldest.alone else fastest.group_size * fastest.pace
        if self.queues.waiting_like(oldest.alone) >= largest * self._groups_of(oldest):
            return "full", 0.0
        remaining = oldest.arrived + self.limits.max_wait - asyncio.get_running_loop().time()
        return ("waited", 0.0) if remaining <= 0 else ("", remaining)

    async def _wait_for_more(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _groups_of(self, oldest: Item) -> int:
        """About how many groups fit a pass."""
        if oldest.alone and not self.gearbox.alone.independent:
            return 1
        return max(1, min(self.limits.max_groups, self.limits.max_tokens // max(1, oldest.length)))

    def _take(self, oldest: Item) -> tuple[Gear, list[Group]]:
        """The gear for what waits, and the groups of the next pass."""
        limits, alone = self.limits, oldest.alone
        self._ran_alone = alone
        gear = self.gearbox.alone
        if not alone:
            gear = self.gearbox.choose(self.queues.waiting_by_tenant(), self._groups_of(oldest))
        larger = max(1.0, gear.pace)  # a faster model runs more groups in the same time
        groups = self.queues.take(
            gear.group_size,
            alone=alone,
            max_groups=1 if alone and not gear.independent else int(limits.max_groups * larger),
            max_tokens=int(limits.max_tokens * larger),
            one_tenant=not gear.independent,
        )
        return gear, groups

    async def _pass(self, groups: list[Group], gear: Gear, reason: str) -> None:
        self._moved.set()
        self._flying = [item for group in groups for item in group]
        started = asyncio.get_running_loop().time()
        outcome = await self._attempt(groups, gear)
        seconds = asyncio.get_running_loop().time() - started
        rate = len(self._flying) / max(seconds, 1e-6)
        self.rate += SMOOTHING * (rate - self.rate) if self.rate else rate
        self._report(groups, gear, reason, started, seconds, outcome)
        if outcome == "failed":
            await self._one_by_one()
        await self._until_it_ends()
        self._flying = []

    async def _attempt(self, groups: list[Group], gear: Gear) -> Outcome:
        """Run one pass and hand out its answers. If it failed, nobody was answered; if it hangs, all were told."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        work = asyncio.ensure_future(
            self._in_thread(1, self.engine.answer, [[item.row for item in group] for group in groups], gear)
        )
        await asyncio.wait({work}, timeout=self.limits.pass_timeout)
        if not work.done():
            self._hung = work
            told = TimedOut(f"the model did not answer within {self.limits.pass_timeout:g} seconds")
            self._fail([item for group in groups for item in group], told)
            return "hung"
        problem = None if work.cancelled() else work.exception()
        if problem is not None:
            logger.error("a pass with %d texts failed", len(self._flying), exc_info=problem)
        if work.cancelled() or problem is not None:
            return "failed"
        answers = work.result()
        if [len(group) for group in groups] != [len(found) for found in answers]:
            logger.error("the engine gave another number of answers than it was given texts")
            return "failed"
        self.last_success = loop.time()
        seconds = self.last_success - started
        self._pass_number += 1
        for group, found in zip(groups, answers, strict=True):
            self._group_number += 1
            for slot, (item, answer) in enumerate(zip(group, found, strict=True)):
                about = (started - item.arrived, seconds, self._pass_number)
                answered = Answered(answer, gear, self._group_number, slot, len(group), *about)
                item.caller.answer(item.place, answered)
        return "ok"

    async def _until_it_ends(self) -> None:
        """If a pass hangs, wait for its end: there is one thread for the model. Until then we are not healthy."""
        if self._hung is not None:
            await asyncio.wait({self._hung})
            self._hung = None

    async def _one_by_one(self) -> None:
        """After a failed pass: each of its texts once more, by itself. Only those that fail again are failed."""
        for item in self._flying:
            await self._until_it_ends()  # the text before may have made the model hang
            if item.caller.gone:
                continue
            if await self._attempt([[item]], self.gearbox.alone) == "failed":
                self._fail([item], PassFailed("the model failed on this text"))

    def _report(
        self, groups: list[Group], gear: Gear, reason: str, started: float, seconds: float, outcome: Outcome
    ) -> None:
        items = [item for group in groups for item in group]
        self.observer.passed(
            PassReport(
                gear=gear,
                reason=reason,
                groups=[(group[0].tenant, len(group)) for group in groups],
                tokens=sum(item.length for item in items),
                padded=len(groups) * max(item.length for item in items),
                queued=[started - item.arrived for item in items],
                seconds=seconds,
                failed=outcome != "ok",
                hung=outcome == "hung",
            )
        )

    # When things go wrong

    def _loop_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._broken = task.exception()
            self._fail_all(Unavailable("the server's loop has stopped; it must be started again"))

    def _fail_all(self, error: Exception) -> None:
        given = [item for groups, _ in self._given for group in groups for item in group]
        self._given.clear()
        self._fail([*self._flying, *given, *self.queues.clear()], error)
        self._moved.set()

    @staticmethod
    def _fail(items: Sequence[Item], error: Exception) -> None:
        for item in items:
            item.caller.fail(error)

    async def _in_thread(self, which: int, work: Callable[..., Any], *given: Any) -> Any:
        """Off the event loop: one thread for tokenising, one for the model."""
        if self._run is not None:
            return await self._run(work, *given)
        while len(self._threads) <= which:
            self._threads.append(ThreadPoolExecutor(1, thread_name_prefix=THREADS[len(self._threads)]))
        self._in_threads[which] = self._threads[which].submit(work, *given)
        return await asyncio.wrap_future(self._in_threads[which])
