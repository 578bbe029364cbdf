"""The load generator: locust in a process of its own. It reads orders as lines of JSON and writes what it measured.

Locust changes Python's sockets and threads when it is imported, so no other module imports this one. Requests are made
before anything is measured, because the generator usually shares the cores with the server that it measures; how much
of them it used is part of every measurement.

    {"url": ..., "key": ..., "pid": ..., "texts": [...], "texts_per_request": 32, "users": 8, "seconds": 3}
"""

import json
import logging
import re
import sys
import time
import urllib.request
from collections import Counter
from itertools import count
from typing import Any

import gevent
import psutil
from locust import FastHttpUser, constant, task
from locust.env import Environment

from datamux.serve.health import TENANT as HEARTBEAT
from datamux.serve.load.arithmetic import percentile

REQUESTS = 512  # different requests that are sent again and again
WARM_UP = 0.3  # seconds, at least; and every user must have had an answer
EACH = 2  # answers that every user must have had, on average, before a step ends
PATIENCE = 10  # times `seconds`: then a step ends all the same
ANSWERED = re.compile(r'^datamux_texts_total\{gear="([^"]*)",tenant="([^"]*)"\} (\S+)', re.MULTILINE)
Order = dict[str, Any]


class Seen:
    """The answers since the last `clear`."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.milliseconds: list[float] = []
        self.problems: Counter[str] = Counter()

    @property
    def answers(self) -> int:
        return len(self.milliseconds) + self.problems.total()

    def hear(self, response_time: float, exception: Any = None, response: Any = None, **rest: Any) -> None:
        """What locust calls after each request."""
        if exception is None:
            self.milliseconds.append(response_time)
        else:
            status = getattr(response, "status_code", 0)
            self.problems[f"status {status}" if status else type(exception).__name__] += 1


class Clock:
    """Wall time, and CPU time of the generator, of the server (if its process is known) and of the whole machine."""

    def __init__(self, server: int | None) -> None:
        self.wall = time.perf_counter()
        self.generator = time.process_time()
        self.server = None if server is None else sum(psutil.Process(server).cpu_times()[:2])
        times = psutil.cpu_times()
        self.machine = sum(times[:8]) - times.idle - getattr(times, "iowait", 0.0)  # the rest is counted in these

    def since(self, before: "Clock") -> dict[str, float | None]:
        seconds = self.wall - before.wall
        generator = (self.generator - before.generator) / seconds
        server = other = None
        if self.server is not None and before.server is not None:
            server = (self.server - before.server) / seconds
            other = max(0.0, (self.machine - before.machine) / seconds - generator - server)
        return {"seconds": seconds, "generator_cores": generator, "server_cores": server, "other_cores": other}


class Answered:
    """How many texts each gear of a server has answered, if the server tells."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.request = urllib.request.Request(f"{url}/metrics", headers=headers)

    def __call__(self) -> Counter[str]:
        try:
            with urllib.request.urlopen(self.request, timeout=30) as answer:
                text = answer.read().decode()
        except OSError:
            return Counter()
        found: Counter[str] = Counter()
        for gear, tenant, texts in ANSWERED.findall(text):
            if tenant != HEARTBEAT:
                found[gear] += round(float(texts))
        return found


def make_bodies(texts: list[str], batch: int) -> list[str]:
    """Requests for /predict: single texts, or batches of `batch`."""
    if batch == 1:
        return [json.dumps({"inputs": text}) for text in texts[: 8 * REQUESTS]]
    wanted = min(REQUESTS, len(texts))
    rows = [[[texts[(start * batch + place) % len(texts)]] for place in range(batch)] for start in range(wanted)]
    return [json.dumps({"inputs": some}) for some in rows]


def measure(order: Order, bodies: list[str]) -> dict[str, Any]:
    """One step: the order's number of users send requests for its number of seconds, each one after the other."""
    key = {"authorization": f"Bearer {order['key']}"} if order.get("key") else {}
    headers = {"content-type": "application/json", **key}
    turns = count()

    class Sender(FastHttpUser):
        host = order["url"]
        wait_time = constant(0)
        network_timeout = connection_timeout = 120.0

        @task
        def send(self) -> None:
            self.client.post("/predict", data=bodies[next(turns) % len(bodies)], headers=headers)

    users, seconds = order["users"], order["seconds"]
    seen, answered = Seen(), Answered(order["url"], key)
    environment = Environment(user_classes=[Sender])
    environment.events.request.add_listener(seen.hear)  # type: ignore[no-untyped-call]
    runner = environment.create_local_runner()
    began = time.perf_counter()
    runner.start(users, spawn_rate=max(100, users))
    _wait(lambda past: past >= WARM_UP and seen.answers >= users, seconds)
    gears, start = answered(), Clock(order.get("pid"))
    seen.clear()
    _wait(lambda past: past >= seconds and seen.answers >= EACH * users, seconds)
    end, milliseconds, problems = Clock(order.get("pid")), sorted(seen.milliseconds), dict(seen.problems)
    gears = answered() - gears
    runner.quit()
    about = end.since(start)
    rate = len(milliseconds) / (end.wall - start.wall)
    return {
        "users": users,
        "texts_per_request": order["texts_per_request"],
        "requests": len(milliseconds),
        "texts": len(milliseconds) * order["texts_per_request"],
        "errors": sum(problems.values()),
        "problems": problems,
        "requests_per_second": rate,
        "texts_per_second": rate * order["texts_per_request"],
        **{f"p{p}": percentile(milliseconds, p) if milliseconds else None for p in (50, 95, 99)},
        "gears": dict(gears),
        **about,
        "warm_up": start.wall - began,
    }


def _wait(enough: Any, seconds: float) -> None:
    began = time.perf_counter()
    while (past := time.perf_counter() - began) < PATIENCE * seconds and not enough(past):
        gevent.sleep(0.01)


def main() -> None:
    logging.getLogger("locust").setLevel(logging.ERROR)
    texts: list[str] = []
    bodies: dict[int, list[str]] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if "texts" in order:
            texts, bodies = order["texts"], {}
        batch = order["texts_per_request"]
        if batch not in bodies:
            bodies[batch] = make_bodies(texts, batch)
        print(json.dumps(measure(order, bodies[batch])), flush=True)


if __name__ == "__main__":
    main()
