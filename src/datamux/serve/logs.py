"""One line of JSON per event and per request, without any text; request numbers; and a catch for all other errors."""

import asyncio
import itertools
import json
import logging
import re
import secrets
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from datamux.serve.errors import as_response
from datamux.serve.metrics import Metrics
from datamux.serve.refusals import Unavailable

access = logging.getLogger("datamux.serve.access")
OTHERS = ("uvicorn", "asyncio")
LOGGERS = ("datamux", *OTHERS)
NUMBER = re.compile(r"[\w.\-]{1,64}")
QUIET = ("/playground/stats", "/health", "/livez", "/readyz", "/metrics")  # asked every few seconds, for ever
UNKNOWN = "other"  # the route of requests that no route takes: a path of their own would make endless metrics


class JsonLines(logging.Formatter):
    """A log record as one line of JSON; what `extra={"fields": {...}}` holds is added."""

    def format(self, record: logging.LogRecord) -> str:
        event = record.getMessage()
        if record.name == "asyncio":  # it goes on with the error and what it was about, which may be a text
            event = "asyncio: " + event.partition("\n")[0].partition("(")[0]
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "event": event,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)

    def formatException(self, info: Any) -> str:  # the name is logging's
        """Where it happened and what kind of error it was. Its message is left out, because it may hold a text."""
        error: BaseException | None = info[1]
        told: list[str] = []
        while error is not None:
            kind = type(error)
            told.append("".join(traceback.format_tb(error.__traceback__)) + f"{kind.__module__}.{kind.__qualname__}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "\nfollowed by\n".join(reversed(told))


def set_up_logs(level: str, stream: TextIO | None = None) -> None:
    """Log `datamux`, uvicorn and asyncio as JSON lines, to stderr unless told otherwise."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
    for name in OTHERS:
        logging.getLogger(name).setLevel(logging.WARNING)


class Watch:
    """Around the whole app: gives each request a number, times it, counts it, logs it, and answers what went wrong."""

    def __init__(self, app: ASGIApp, metrics: Metrics, closing: Callable[[], bool] = lambda: False) -> None:
        self.app = app
        self.metrics = metrics
        self.closing = closing
        self._prefix = secrets.token_hex(4)
        self._count = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        number = self._number(scope)
        status = 0
        scope["datamux"] = fields = {"id": number}

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                milliseconds = (time.perf_counter() - started) * 1000
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", number.encode()),
                    (b"x-total-time", b"%.1f" % milliseconds),
                ]
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            if status:
                raise  # half of an answer is sent already
            await as_response(error)(scope, receive, send_with_headers)
        except asyncio.CancelledError:
            if status or not self.closing():
                raise
            problem = Unavailable("the server was shut down before this request was answered")
            await as_response(problem)(scope, receive, send_with_headers)  # uvicorn would send its own kind of error
        finally:
            self._tell(scope, status or 499, time.perf_counter() - started, fields)

    def _number(self, scope: Scope) -> str:
        for name, value in scope["headers"]:
            if name == b"x-request-id":
                given = str(value, "latin-1")
                if NUMBER.fullmatch(given):
                    return given
        return f"{self._prefix}-{next(self._count)}"

    def _tell(self, scope: Scope, status: int, seconds: float, fields: dict[str, Any]) -> None:
        route = getattr(scope.get("route"), "path", UNKNOWN)
        self.metrics.requested(route, status, seconds)
        level = logging.DEBUG if route in QUIET and status == 200 else logging.INFO
        if access.isEnabledFor(level):
            about = {"method": scope["method"], "route": route, "status": status, "ms": round(seconds * 1000, 1)}
            access.log(level, "request", extra={"fields": {**about, **fields}})
