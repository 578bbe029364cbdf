"""`datamux bench serve`: a plain and a multiplexed model behind the same server, under rising load, as a run record."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from datamux.evaluate.records import make_record
from datamux.evaluate.workloads import inputs_of
from datamux.serve.load.arithmetic import summary_rows, table_rows
from datamux.serve.load.processes import Generator, Target, generating, serving
from datamux.serve.settings import PREFIX
from datamux.tasks.task import get_task, load_split
from datamux.zoo.sentences import NEWS, OPINIONS

PLAIN, MIXED, FULL, RUNNING = "plain", "multiplexed", "always {} per pass", "running server"
TEXTS = 8192  # that are sent again and again
USERS = {1: (1, 4, 16, 64, 128, 256, 512), 32: (1, 2, 4, 8, 16, 32)}  # by texts per request
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is measured. `users` are the steps of the load; empty: the usual ones."""

    model: str | None = None
    plain: str | None = None
    url: str | None = None
    key: str | None = None
    batches: Sequence[int] = (1, 32)
    users: Sequence[int] = ()
    rounds: int = 3
    seconds: float = 3.0
    latency_ms: float = 100.0
    texts: Path | None = None
    threads: int | None = None
    separate_tenants: bool = False
    profile: bool = False
    data_dir: str | None = None

    def steps(self, batch: int) -> tuple[int, ...]:
        return tuple(sorted(set(self.users))) or USERS[1 if batch < 8 else 32]

    @property
    def options(self) -> list[str]:
        """Options that every server is started with."""
        threads = [] if self.threads is None else ["--threads", str(self.threads)]
        return ["--no-keys", "--no-playground", *([] if self.separate_tenants else ["--single-tenant"]), *threads]


def run_serve(plan: Plan, tell: Tell = lambda text: None) -> dict[str, Any]:
    """Measure every server at every step of the load, in turn, round after round."""
    if plan.model is None and plan.url is None:
        raise ValueError("name a model to serve, or give --url to measure a server that runs already")
    if plan.profile and plan.model is None:
        raise ValueError("--profile looks into a server of its own: name a model to serve")
    with ExitStack() as stack:
        targets = _start(plan, stack, tell)
        source, texts = find_texts(plan, targets[0])
        generator = stack.enter_context(generating(texts))
        steps = _measure(plan, targets, generator, tell)
    found: dict[str, Any] = {"summary": summary_rows(steps, plan.latency_ms, PLAIN)}
    if plan.profile and plan.model is not None:
        from datamux.serve.load.profile import profile_server

        with generating(texts) as generator:
            found["profile"] = profile_server(plan.model, plan, generator, tell)
    settings = {
        "model": plan.model,
        "plain": plan.plain,
        "url": plan.url,
        "servers": [target.name for target in targets],
        "texts_per_request": list(plan.batches),
        "users": {str(batch): list(plan.steps(batch)) for batch in plan.batches},
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "latency_ms": plan.latency_ms,
        "texts": source,
        "tenants": "one per connection" if plan.separate_tenants else "one",
        "threads": plan.threads,
        "environment": {name: value for name, value in os.environ.items() if _matters(name)},
    }
    return make_record("serve", recipe=None, settings=settings, **found, steps=steps, results=table_rows(steps))


def _matters(name: str) -> bool:
    return name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") or (name.startswith(PREFIX) and "KEY" not in name)


def _start(plan: Plan, stack: ExitStack, tell: Tell) -> list[Target]:
    """The server that runs already, the plain model, the multiplexed one, and that at its full group size."""
    targets = [Target(RUNNING, plan.url.rstrip("/"), key=plan.key)] if plan.url else []

    def start(name: str, model: str, *options: str) -> Target:
        targets.append(stack.enter_context(serving(name, model, [*plan.options, *options])))
        tell(f"{name}: {model} at {targets[-1].url}")
        return targets[-1]

    if plan.plain is not None:
        start(PLAIN, plan.plain)
    if plan.model is not None:
        capacity = _info(start(MIXED, plan.model))["capacity"]
        if capacity > 1:
            start(FULL.format(capacity), plan.model, "--gears", str(capacity))
    return targets


def _measure(plan: Plan, targets: Sequence[Target], generator: Generator, tell: Tell) -> list[dict[str, Any]]:
    steps = []
    for number in range(plan.rounds):
        for batch in plan.batches:
            for users in plan.steps(batch):
                for target in targets:
                    step = generator.measure(target, users=users, batch=batch, seconds=plan.seconds)
                    steps.append({"server": target.name, "round": number, **step})
                    tell(f"round {number + 1} of {plan.rounds}: {_told(steps[-1])}")
    return steps


def _told(step: dict[str, Any]) -> str:
    rate = f"{step['texts_per_second']:,.0f} texts per second, p95 {step['p95'] or float('nan'):,.0f} ms"
    return f"{step['server']}, {step['users']} users, {step['texts_per_request']} texts per request: {rate}"


def find_texts(plan: Plan, target: Target) -> tuple[str, list[str]]:
    """The source of the texts, and the texts: lines of a file, SST-2 if this machine has it, or our own sentences."""
    if plan.texts is not None:
        lines = [line.strip() for line in plan.texts.read_text(encoding="utf-8").splitlines()]
        texts = [line for line in lines if line][:TEXTS]
        if not texts:
            raise ValueError(f"{plan.texts} has no texts; it must have one text per line")
        return plan.texts.name, texts
    if _info(target).get("kind") == "tagging":
        return "sentences of the demo", _varied(NEWS)
    if plan.data_dir or os.environ.get("DATAMUX_DATA"):
        examples = load_split(get_task("sst2"), "train", plan.data_dir).first(TEXTS)
        return "sst2", [str(text) for text in inputs_of(examples)]
    return "sentences of the demo", _varied(OPINIONS)


def _varied(sentences: Sequence[str]) -> list[str]:
    """Single sentences and pairs of them, in random order."""
    texts = [*sentences, *(f"{one} {other}" for one in sentences for other in sentences if one != other)]
    Random(0).shuffle(texts)
    return texts


def _info(target: Target) -> dict[str, Any]:
    """What a server tells about itself; nothing, if it is not one of ours."""
    headers = {"authorization": f"Bearer {target.key}"} if target.key else {}
    request = urllib.request.Request(f"{target.url}/info", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise ValueError(f"{target.url} wants a key: give one with --key") from None
        return {}
    except urllib.error.URLError as error:
        raise ValueError(f"no server answers at {target.url}: {error.reason}") from None
