"""For tests of the batcher: time that the test controls, an engine that fails and hangs at will, and a listener."""

import asyncio
from collections import Counter
from typing import Any

from datamux.serve.batcher import Batcher, Limits, PassReport
from datamux.serve.gears import Gear, Gearbox

GEARS = Gearbox([Gear("one", 1), Gear("three", 3), Gear("seven", 7)])
LIMITS = Limits(
    max_wait=0.01, max_groups=4, max_tokens=200, max_queue=60, max_tenant_queue=40, timeout=5.0, pass_timeout=1.0
)
HANG = 3 * LIMITS.pass_timeout  # seconds


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it, and that keeps its complaints."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.complaints: list[str] = []
        self.set_exception_handler(lambda loop, context: self.complaints.append(context["message"]))
        select = self._selector.select

        def jump(timeout: float | None) -> Any:
            if timeout is not None and timeout > 0:
                self.now += timeout
            return select(0)

        self._selector.select = jump  # type: ignore[method-assign]

    def time(self) -> float:
        return self.now

    def close(self) -> None:
        """End what still runs first: what is left is collected at any time, and may then disturb another test."""
        tasks = set() if self.is_closed() else asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        if tasks:
            self.run_until_complete(asyncio.wait(tasks))
        super().close()


class Fake:
    """Answers "TENANT:TEXT" with its text in capital letters, and remembers who was run with whom."""

    def __init__(self) -> None:
        self.passes: list[tuple[list[list[str]], Gear]] = []
        self.tokenised: list[list[str]] = []
        self.complaints: list[str] = []  # of the event loop
        self.failures: Counter[str] = Counter()  # of each text, in how many failing passes it was
        self.hangs: list[float] = []  # when a pass began to hang
        self.busy: list[tuple[float, float]] = []  # when each pass began and ended
        self.fail_next = 0
        self.seconds = 0.02
        self.tokenising = 0.0  # seconds that each call takes
        self.hang_next = False

    def tokenise(self, texts: Any) -> list[tuple[str, int]]:
        self.tokenised.append(list(texts))
        if any(not text for text in texts):
            raise ValueError("a text is empty")
        return [(text, len(text)) for text in texts]

    def answer(self, groups: list[list[str]], gear: Gear) -> list[list[str]]:
        self.passes.append((groups, gear))
        rows = [row for group in groups for row in group]
        if self.fail_next or any("poison" in row for row in rows):
            self.fail_next = max(0, self.fail_next - 1)
            self.failures.update(rows)
            raise RuntimeError(f"the model broke on {rows}")
        return [[row.upper() for row in group] for group in groups]

    async def run(self, work: Any, *given: Any) -> Any:
        if work == self.answer:
            hang, self.hang_next = self.hang_next, False
            if hang:
                self.hangs.append(asyncio.get_running_loop().time())
            began = asyncio.get_running_loop().time()
            try:
                await asyncio.sleep(HANG if hang else self.seconds)
            finally:
                self.busy.append((began, asyncio.get_running_loop().time()))
        else:
            await asyncio.sleep(self.tokenising)
        return work(*given)


class Seen:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.reports: list[PassReport] = []
        self.drops: Counter[tuple[str, str]] = Counter()
        self.refusals: Counter[str] = Counter()

    def passed(self, report: PassReport) -> None:
        self.reports.append(report)

    def dropped(self, tenant: str, texts: int, why: str) -> None:
        self.drops[tenant, why] += texts

    def refused(self, tenant: str, why: str) -> None:
        self.refusals[why] += 1


def play(scenario: Any, limits: Limits = LIMITS, gears: Gearbox = GEARS) -> tuple[Fake, Seen]:
    """Run `scenario(batcher, fake)` in virtual time."""
    loop = VirtualLoop()
    fake, seen = Fake(), Seen()
    fake.complaints = loop.complaints

    async def scene() -> None:
        batcher = Batcher(fake, gears, limits, observer=seen, run=fake.run)
        batcher.start()
        await scenario(batcher, fake)
        await batcher.close()

    loop.run_until_complete(scene())
    loop.close()
    return fake, seen
