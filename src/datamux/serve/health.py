"""Whether the model really answers: a text goes through the batcher and the model, unless others just did."""

import asyncio

from datamux.serve.batcher import Batcher, Overloaded, PassFailed, Refused, TimedOut

TENANT = "health check"
TEXT = "Is the model still there?"
RECENT = 5.0  # seconds for which a successful pass counts


class Heartbeat:
    """Asks the model at most once in `RECENT` seconds, however many probes there are."""

    def __init__(self, batcher: Batcher) -> None:
        self.batcher = batcher
        self._asking: asyncio.Task[str] | None = None

    async def problem(self) -> str:
        """What is wrong; empty if the model answers."""
        if not self.batcher.alive:
            return "the model does not answer"
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
        except Overloaded:
            return ""  # there is much to do, and the passes before this one have not failed
        except (Refused, TimedOut, PassFailed) as error:
            return str(error)
        return ""
