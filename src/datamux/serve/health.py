"""Whether the model really answers: a text goes through the batcher and the model, unless others just did."""

import asyncio
import logging

from datamux.serve.batcher import Batcher, Overloaded, PassFailed, Refused, TimedOut

logger = logging.getLogger(__name__)
TENANT = "health check"
TEXT = "Is the model still there?"
RECENT = 5.0  # seconds for which a successful pass counts
NO_ANSWER = "the model does not answer"


class Heartbeat:
    """Asks the model at most once in `RECENT` seconds, however many probes there are."""

    def __init__(self, batcher: Batcher) -> None:
        self.batcher = batcher
        self._asking: asyncio.Task[str] | None = None

    async def problem(self) -> str:
        """What is wrong; empty if the model answers."""
        if not self.batcher.alive:
            return NO_ANSWER
        if not self.batcher.healthy:
            return "the server is shutting down"
        if asyncio.get_running_loop().time() - self.batcher.last_success < RECENT:
            return ""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> str:
        try:
            await self.batcher.submit(TENANT, [TEXT], alone=True)
        except Overloaded as error:
            return "" if self._answered_lately() else str(error)
        except (Refused, TimedOut, PassFailed) as error:
            return str(error)
        except Exception as error:
            logger.error("a health check failed", exc_info=error)
            return NO_ANSWER
        return ""

    def _answered_lately(self) -> bool:
        """A full queue is no fault while passes succeed. Right after the start, none can have succeeded yet."""
        since = max(self.batcher.last_success, self.batcher.started)
        return asyncio.get_running_loop().time() - since < self.batcher.limits.pass_timeout
