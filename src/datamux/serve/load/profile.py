"""Where the time of single-text requests goes: what HTTP costs, what is ours, and what the model costs.

The server runs in a thread of this process at its full group size, and the load comes from another process. Three
measurements: a server that does nothing but HTTP, ours, and ours with its event loop under cProfile. The first two
count the CPU time of each thread and of the whole process, in which PyTorch may have more threads for the model; of
ours, the wall time is counted, too. The last one only divides the event loop's time into parts, because a profiler
makes everything slower.
"""

import cProfile
import pstats
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response

from datamux.serve.app import SWITCH, create_app, server_of
from datamux.serve.background import running_server
from datamux.serve.load.processes import Generator, Target
from datamux.serve.load.wall import WallClock
from datamux.serve.memory import keep_what_is_loaded
from datamux.serve.routes import PlainRoute
from datamux.serve.service import load_service
from datamux.serve.settings import Settings
from datamux.serve.threads import NAMES

if TYPE_CHECKING:
    from datamux.serve.load.bench import Plan

USERS = 512  # more than two full passes of 8 groups of 20, or the event loop and the model would take turns
OURS = "our server"
LOOP, TOKENISING, MODEL, OTHERS = "event loop", "tokenising", "model", "other threads"
HTTP, JSON = "HTTP: event loop, uvicorn, FastAPI", "reading and writing JSON"
BATCHER, ROUTES, LOGS = "ours: batcher and queues", "ours: routes and answers", "ours: logs and metrics"
REST = "the rest of Python"
# The first mark that a function's file or name has decides. Built-in functions count for their callers otherwise.
MARKS = (
    *(("pydantic", JSON), ("/json/", JSON), ("schemas.py", JSON)),
    *((f"datamux/serve/{name}.py", BATCHER) for name in ("batcher", "queues", "gears", "engine", "passes", "given")),
    *((f"datamux/serve/{name}.py", BATCHER) for name in ("next_pass", "admission", "threads", "tickets", "tokenising")),
    *((f"datamux/serve/{name}.py", LOGS) for name in ("logs", "metrics")),
    ("datamux/", ROUTES),
    *((name, HTTP) for name in ("uvloop", "asyncio", "selectors", "uvicorn", "httptools", "starlette", "fastapi")),
    *((name, HTTP) for name in ("anyio", "h11", "<frozen", "concurrent/futures")),
)
Measured = dict[str, Any]
Stats = dict[tuple[str, int, str], tuple[int, int, float, float, dict[tuple[str, int, str], tuple[Any, ...]]]]


def profile_server(model: str, plan: "Plan", generator: Generator, tell: Callable[[str], None]) -> dict[str, Any]:
    """Requests per second and microseconds of CPU time per request, by thread and by part."""
    settings = Settings(port=0, no_keys=True, single_tenant=True, no_playground=True, threads=plan.threads)

    def measure(app: FastAPI, around: Any = _as_it_is, watch: WallClock | None = None) -> Measured:
        keep_what_is_loaded()
        with running_server(server_of(app, settings), around) as (url, loop):
            target = Target("profile", url)
            generator.measure(target, users=USERS, batch=1, seconds=plan.seconds / 3)  # starts all threads
            if watch is not None:
                watch.clear()
            with _cpu_clocks({LOOP: loop, **_threads()}) as spent:
                began, cpu = time.perf_counter(), time.process_time()
                found = generator.measure(target, users=USERS, batch=1, seconds=plan.seconds)
                wall, cpu = time.perf_counter() - began, time.process_time() - cpu
            answered = found["requests"] * (found["seconds"] + found["warm_up"]) / found["seconds"]
            kept = {name: found[name] for name in ("requests_per_second", "p50", "p95", "generator_cores", "gears")}
            wall_times = {} if watch is None else {"wall": watch.measured(USERS, found["requests_per_second"])}
            return (
                kept
                | wall_times
                | {
                    "microseconds": {name: 1e6 * seconds / answered for name, seconds in spent.items()},
                    "other_microseconds": 1e6 * max(0.0, cpu - sum(spent.values())) / answered,
                    "busy": {name: seconds / wall for name, seconds in spent.items()},
                    "cores": cpu / wall,
                }
            )

    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        tell("profile: a server that does nothing but HTTP")
        bare = measure(_bare_app())
        profiler = cProfile.Profile(time.thread_time)  # only CPU time: waiting is nobody's work
        found = []
        for what, around in ((OURS, _as_it_is), (f"{OURS}, with a profiler", profiler.runcall)):
            tell(f"profile: {what}")
            service = load_service(model, settings)
            service.gearbox.gears = (service.gearbox.fastest,)
            service.warm_up()
            watch = WallClock(service) if what == OURS else None
            found.append(measure(create_app(service), around, watch))
    finally:
        sys.setswitchinterval(interval)
    ours, _ = found
    shares = part_shares(pstats.Stats(profiler).stats)  # type: ignore[attr-defined]
    return {"users": USERS, "bare_http": bare, "server": ours, "parts": _parts(ours, shares)}


def _parts(ours: Measured, shares: dict[str, float]) -> list[dict[str, Any]]:
    """The rows of the table: the event loop's parts, then the other threads."""
    microseconds = ours["microseconds"] | {OTHERS: ours["other_microseconds"]}
    total = sum(microseconds.values())
    rows = [(LOOP, part, share * microseconds[LOOP]) for part, share in shares.items()]
    rows += [(name, "", spent) for name, spent in microseconds.items() if name != LOOP]
    return [{"thread": t, "part": part, "microseconds": spent, "share": spent / total} for t, part, spent in rows]


def part_shares(stats: Stats) -> dict[str, float]:
    """The share of the profiled time that each part took, largest first. Built-in functions count for their callers."""
    spent: defaultdict[str, float] = defaultdict(float)
    for function, (_, _, own, _, callers) in stats.items():
        part = _part(function)
        if part != REST or not callers:
            spent[part] += own
            continue
        for caller, times in callers.items():
            spent[_part(caller)] += times[2]
    total = sum(spent.values())
    return {part: seconds / total for part, seconds in sorted(spent.items(), key=lambda item: -item[1])}


def _part(function: tuple[str, int, str]) -> str:
    file, _, name = function
    where = f"{file} {name}".replace("\\", "/")
    return next((part for mark, part in MARKS if mark in where), REST)


def _bare_app() -> FastAPI:
    """Reads a request and gives a fixed answer, behind the same server as ours."""
    app = FastAPI()
    app.router.route_class = PlainRoute

    @app.post("/predict")
    async def predict(request: Request) -> Response:
        await request.body()
        return Response('[{"label":"positive","score":0.5}]', media_type="application/json")

    return app


def _threads() -> dict[str, threading.Thread]:
    """The batcher's threads that run now; there is one batcher at a time."""
    running = {thread.name.partition("_")[0]: thread for thread in threading.enumerate()}
    return {name: running[prefix] for prefix, name in zip(NAMES, (TOKENISING, MODEL), strict=True) if prefix in running}


def _as_it_is(run: Callable[[], None]) -> None:
    run()


@contextmanager
def _cpu_clocks(threads: dict[str, threading.Thread]) -> Iterator[dict[str, float]]:
    """Seconds of CPU time that each thread used inside the block."""

    def now() -> dict[str, float]:
        clocks = {name: time.pthread_getcpuclockid(thread.ident or 0) for name, thread in threads.items()}
        return {name: time.clock_gettime(clock) for name, clock in clocks.items()}

    spent: dict[str, float] = {}
    before = now()
    yield spent
    spent |= {name: seconds - before[name] for name, seconds in now().items()}
