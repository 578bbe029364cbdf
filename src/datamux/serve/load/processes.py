"""The processes of a load test: servers as their users start them, and the load generator."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, Any

PATIENCE = 60  # seconds for stopping
ADDRESS = re.compile(r" is at (http://\S+?);")


@dataclass(frozen=True)
class Target:
    """A running server. `pid` is None if its process is not ours."""

    name: str
    url: str
    pid: int | None = None
    key: str | None = None


class Child:
    """A Python module in a process of its own, to which we talk in lines."""

    def __init__(self, what: str, words: Sequence[str], errors: IO[str]) -> None:
        self.what, self._errors = what, errors
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; reading tells why
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return line
        self._errors.seek(0)
        said = " ".join(self._errors.read().strip().splitlines()[-3:])
        raise ValueError(f"{self.what} has stopped: {said or 'it did not say why'}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


@contextmanager
def _child(what: str, *words: str) -> Iterator[Child]:
    with tempfile.TemporaryFile("w+") as errors:
        child = Child(what, words, errors)
        try:
            yield child
        finally:
            child.stop()


@contextmanager
def serving(name: str, model: str, options: Sequence[str]) -> Iterator[Target]:
    """A server in its own process, started with `datamux serve MODEL` and `options`."""
    words = ("datamux.cli", "serve", model, "--port", "0", "--log-level", "warning", *options)
    with _child(f"the server of {model}", *words) as server:
        line = server.read()
        found = ADDRESS.search(line)
        if found is None:
            raise ValueError(f"the server of {model} did not tell its address; it said: {line.strip()}")
        yield Target(name, found[1], server.process.pid)


class Generator:
    """The load generator: `measure` runs one step and returns what was measured."""

    def __init__(self, child: Child, texts: Sequence[str]) -> None:
        self._child = child
        self._texts: Sequence[str] | None = texts

    def measure(self, target: Target, *, users: int, batch: int, seconds: float) -> dict[str, Any]:
        order: dict[str, Any] = {"url": target.url, "key": target.key, "pid": target.pid}
        order |= {"users": users, "texts_per_request": batch, "seconds": seconds}
        if self._texts is not None:
            order["texts"], self._texts = list(self._texts), None
        self._child.write(json.dumps(order))
        measured: dict[str, Any] = json.loads(self._child.read())
        return measured


@contextmanager
def generating(texts: Sequence[str]) -> Iterator[Generator]:
    """A load generator that sends these texts."""
    if find_spec("locust") is None:  # importing it here would change this process
        raise ModuleNotFoundError("No module named 'locust'", name="locust")
    with _child("the load generator", "datamux.serve.load.generator") as child:
        yield Generator(child, texts)
