"""Runs one pass: hands out its answers, or does what must be done when the model fails or hangs.

A pass that fails is tried again one text at a time, so only the texts that are wrong fail. A pass that hangs fails its
callers at once, and no other begins before it has ended, because there is one thread for the model.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from datamux.serve.contract import Engine, Limits, PassReport
from datamux.serve.gears import Gear, Gearbox
from datamux.serve.queues import Group, Item
from datamux.serve.refusals import PassFailed, TimedOut
from datamux.serve.threads import MODEL, Threads
from datamux.serve.tickets import Answered

logger = logging.getLogger(__name__)
SMOOTHING = 0.2  # how much the last pass counts in the measured rate
AGAIN = "again"  # why a text runs by itself after a pass that failed

Outcome = Literal["ok", "failed", "hung"]


class Passes:
    """Runs passes one after the other, and tells each to `tell`."""

    def __init__(
        self, engine: Engine, gearbox: Gearbox, limits: Limits, threads: Threads, tell: Callable[[PassReport], None]
    ) -> None:
        self.engine = engine
        self.gearbox = gearbox
        self.limits = limits
        self.rate = 0.0  # texts per second, of the last passes
        self.last_success = -math.inf  # when the last pass succeeded, on the event loop's clock
        self.hung: asyncio.Future[Any] | None = None  # the pass that takes too long
        self._threads = threads
        self._tell = tell
        self._group_number = 0
        self._pass_number = 0

    async def run(self, groups: list[Group], gear: Gear, reason: str) -> bool:
        """One pass, and what follows if it fails. Afterwards every caller is answered or told; whether it went well."""
        items = [item for group in groups for item in group]
        outcome, seconds = await self._reported(groups, gear, reason)
        rate = len(items) / max(seconds, 1e-6)
        self.rate += SMOOTHING * (rate - self.rate) if self.rate else rate
        if outcome == "failed":
            await self._one_by_one(items)
        await self._until_it_ends()
        return outcome == "ok"

    async def _one_by_one(self, items: Sequence[Item]) -> None:
        """After a failed pass: each of its texts once more, by itself. Only those that fail again are failed."""
        for item in items:
            await self._until_it_ends()  # the text before may have made the model hang
            if item.caller.gone:
                continue
            outcome, _ = await self._reported([[item]], self.gearbox.alone, AGAIN)
            if outcome == "failed":
                item.caller.fail(PassFailed(f"the model failed on {item.caller.named(item.place)}"))

    async def _reported(self, groups: list[Group], gear: Gear, reason: str) -> tuple[Outcome, float]:
        """Run one pass and tell about it. Gives its outcome, and the seconds that it took."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        outcome, answered = await self._attempt(groups, gear)
        seconds = loop.time() - started
        items = [item for group in groups for item in group]
        self._tell(
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
                answered=answered,
            )
        )
        return outcome, seconds

    async def _attempt(self, groups: list[Group], gear: Gear) -> tuple[Outcome, Counter[str]]:
        """Run one pass and hand out its answers. If it failed, nobody was answered; if it hangs, all were told.

        Also of each tenant how many texts were answered whose caller still waited.
        """
        answered: Counter[str] = Counter()
        loop = asyncio.get_running_loop()
        started = loop.time()
        rows = [[item.row for item in group] for group in groups]
        work = asyncio.ensure_future(self._threads(MODEL, self.engine.answer, rows, gear))
        try:
            await asyncio.wait({work}, timeout=self.limits.pass_timeout)
        finally:
            if not work.done():  # it takes too long, or the server is shut down meanwhile
                work.add_done_callback(_look_at)
        if not work.done():
            self.hung = work
            told = TimedOut(f"the model did not answer within {self.limits.pass_timeout:g} seconds")
            for group in groups:
                for item in group:
                    item.caller.fail(told)
            return "hung", answered
        problem = None if work.cancelled() else work.exception()
        if problem is not None:
            logger.error("a pass with %d texts failed", sum(map(len, groups)), exc_info=problem)
        if work.cancelled() or problem is not None:
            return "failed", answered
        answers = work.result()
        if [len(group) for group in groups] != [len(found) for found in answers]:
            logger.error("the engine gave another number of answers than it was given texts")
            return "failed", answered
        self.last_success = loop.time()
        seconds = self.last_success - started
        self._pass_number += 1
        for group, found in zip(groups, answers, strict=True):
            self._group_number += 1
            for slot, (item, answer) in enumerate(zip(group, found, strict=True)):
                about = (started - item.arrived, seconds, self._pass_number)
                answered[item.tenant] += not item.caller.gone
                item.caller.answer(item.place, Answered(answer, gear, self._group_number, slot, len(group), *about))
        return "ok", +answered

    async def _until_it_ends(self) -> None:
        """If a pass hangs, wait for its end: there is one thread for the model. Until then we are not healthy."""
        if self.hung is not None:
            await asyncio.wait({self.hung})
            self.hung = None


def _look_at(work: "asyncio.Future[Any]") -> None:
    """How a pass has ended that nobody waits for. Asyncio would log its error with a message that may hold a text."""
    problem = None if work.cancelled() else work.exception()
    if problem is not None:
        logger.error("a pass that nobody waits for any more has failed", exc_info=problem)
