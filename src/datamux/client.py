"""`datamux.Client(url)`, then `client(texts)`: the same call as a predictor, answered by a `datamux serve` elsewhere.

Uses only Python's own library. Connections stay open from one call to the next. Texts go in batches, the next one while
the last is answered; a busy server (429 or 503) and a broken connection are tried again after a growing pause, and a
batch that is too large for the server (413) is sent in halves.
"""

import http.client
import json
import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

BUSY = (429, 503)
FIRST_PAUSE = 0.1  # seconds, doubled with each try
LONGEST_PAUSE = 10.0
LONGEST_WANTED = 30.0  # seconds that the server may ask us to wait
IDLE = 30.0  # seconds after which an open connection is not used again; the server closes idle ones after 75
TOO_LARGE = 413


class ServerError(Exception):
    """The server refused a request or failed. `status` is that of HTTP, and `kind` the server's own word for it."""

    def __init__(self, status: int, message: str, kind: str = "Error") -> None:
        super().__init__(f"{message} (status {status})")
        self.status = status
        self.kind = kind


class Client:
    """Answers texts with the model of a server.

    - `key` is the API key, if the server wants one.
    - `timeout`: seconds that one request may take.
    - `retries`: how often a request is sent again when the server is busy or cannot be reached.
    - `batch_size`: texts of one request. `in_flight`: requests that are sent at the same time.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 120.0,
        retries: int = 8,
        batch_size: int = 256,
        in_flight: int = 2,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the address must look like http://127.0.0.1:8080, got {url!r}")
        for what, value, least in (("batch_size", batch_size, 1), ("in_flight", in_flight, 1), ("retries", retries, 0)):
            if value < least:
                raise ValueError(f"{what} must be at least {least}, got {value}")
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        self.timeout, self.retries = timeout, retries
        self.batch_size, self.in_flight = batch_size, in_flight
        self._sleep = sleep
        self._open: deque[tuple[http.client.HTTPConnection, float]] = deque()  # not in use, and since when
        self._info: dict[str, Any] | None = None

    @property
    def info(self) -> dict[str, Any]:
        """What the server tells about its model, its gears and its limits."""
        if self._info is None:
            self._info = self._send("GET", "/info")
        return self._info

    def __call__(self, texts: Any, group_size: int | None = None, *, top_k: int = 1, mux: bool = True) -> Any:
        """Answers in input order: a list for a list, an iterator for a generator; one text gets its answer.

        `mux=False`, or a `group_size` of 1: no text shares a pass with any other, so no answer depends on other texts.
        Otherwise the server decides by its load how many texts share a pass.
        """
        if group_size not in (None, 1):
            raise ValueError(
                f"group_size must be 1 or left out, got {group_size}: the server decides how many texts share a pass "
                "(datamux serve --gears)"
            )
        mux = mux and group_size is None
        if top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {top_k}")
        if isinstance(texts, os.PathLike):
            raise ValueError(f"a client reads no files, got {texts}; give it the texts, such as the lines of open(...)")
        if isinstance(texts, str | dict):
            (answer,) = self._stream([texts], top_k, mux)
            return answer if self.info["kind"] == "tagging" else [answer]
        if isinstance(texts, Sequence):
            return list(self._stream(texts, top_k, mux))
        return self._stream(texts, top_k, mux)

    def get(self, path: str) -> Any:
        """What the server answers at `path`, from JSON."""
        return self._send("GET", path)

    def post(self, path: str, given: dict[str, Any]) -> Any:
        """What the server answers to any request of your own, from JSON; tried again like all others."""
        return self._send("POST", path, given)

    def close(self) -> None:
        """Close the connections that are open. Another call opens new ones."""
        while (connection := self._idle_connection()) is not None:
            connection.close()

    def _stream(self, texts: Iterable[Any], top_k: int, mux: bool) -> Iterator[Any]:
        iterator = iter(texts)
        pool = ThreadPoolExecutor(self.in_flight)
        try:
            sent: deque[Future[list[Any]]] = deque()
            while some := list(islice(iterator, self.batch_size)):
                sent.append(pool.submit(self._in_halves, some, top_k, mux))
                if len(sent) > self.in_flight:
                    yield from sent.popleft().result()
            while sent:
                yield from sent.popleft().result()
        finally:
            # If the caller stops early, which may be in any thread that collects garbage, nobody waits for the rest.
            pool.shutdown(wait=False, cancel_futures=True)

    def _in_halves(self, texts: list[Any], top_k: int, mux: bool) -> list[Any]:
        """The answers of one batch. If it is too large for the server, it and the batches after it become smaller."""
        try:
            return self._answers(texts, top_k, mux)
        except ServerError as error:
            if error.status != TOO_LARGE or len(texts) == 1:
                raise
        half = len(texts) // 2
        self.batch_size = min(self.batch_size, half)
        return self._in_halves(texts[:half], top_k, mux) + self._in_halves(texts[half:], top_k, mux)

    def _answers(self, texts: list[Any], top_k: int, mux: bool) -> list[Any]:
        if self.info["kind"] == "tagging":
            if len({isinstance(text, str) for text in texts}) > 1:
                raise ValueError("give either texts or lists of words, not both in one call")
            return list(self._send("POST", "/tag", {"inputs": texts, "mux": mux}))
        several = self.info["problem"] == "multi_label_classification"
        number = self.info["problem"] == "regression"
        inputs = [[text] if isinstance(text, str) else list(text) for text in map(_pair_or_text, texts)]
        wanted = {} if several or number else {"top_k": top_k}
        found = self._send("POST", "/predict", {"inputs": inputs, "mux": mux, **wanted})
        if several:
            return [[label for label in labels if label["score"] > 0.5] for labels in found]
        if number or top_k == 1:
            return [labels[0] if len(labels) == 1 else labels for labels in found]
        return list(found)

    def _send(self, method: str, path: str, given: dict[str, Any] | None = None) -> Any:
        """One request; again and again while the server is busy, at most `retries` times."""
        body = None if given is None else json.dumps(given).encode()
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                status, headers, content = self._once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                if last or isinstance(error, TimeoutError):
                    raise ServerError(
                        0, f"no answer from {self._host}:{self._port}: {error!r}", "Unreachable"
                    ) from error
                self._pause(attempt, "")
                continue
            if status in BUSY and not last:
                self._pause(attempt, headers.get("retry-after", ""))
                continue
            if status != 200:
                raise _error(status, content)
            return json.loads(content)
        raise AssertionError("not reached")

    def _once(self, method: str, path: str, body: bytes | None) -> tuple[int, Any, bytes]:
        connection = self._idle_connection() or self._kind(self._host, self._port, timeout=self.timeout)
        try:
            # A server that refuses a long body answers before it has read all of it, and closes.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, self._prefix + path, body, self._headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        self._open.append((connection, time.monotonic()))
        return response.status, response.headers, content

    def _idle_connection(self) -> http.client.HTTPConnection | None:
        """An open connection that nobody uses, if there is one. Those that were idle for long are closed."""
        while True:
            try:
                connection, since = self._open.pop()
            except IndexError:
                return None
            if time.monotonic() - since < IDLE:
                return connection
            connection.close()

    def _pause(self, attempt: int, wanted: str) -> None:
        """Wait longer with each try, at least as long as the server says, and not as long as every other client."""
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt)
        if wanted.isdigit():
            pause = max(pause, min(LONGEST_WANTED, float(wanted)))
        self._sleep(pause * random.uniform(1.0, 1.25))


def _pair_or_text(text: Any) -> Any:
    if isinstance(text, dict):
        return (text["text"], text["text_pair"]) if text.get("text_pair") is not None else text["text"]
    return text


def _error(status: int, content: bytes) -> ServerError:
    try:
        told = json.loads(content)
        return ServerError(status, told["error"], told["error_type"])
    except (ValueError, KeyError, TypeError):
        return ServerError(status, content[:200].decode("utf-8", "replace") or "the server gave no reason")
