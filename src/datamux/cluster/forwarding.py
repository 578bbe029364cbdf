"""An HTTP request as plain values that can be sent to another process, and the call that lets an app answer it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message

Headers = list[tuple[bytes, bytes]]
BETWEEN_HOPS = {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"te", b"trailer"}


@dataclass(frozen=True)
class Forwarded:
    """A request. `client` says on whose behalf it comes, where there are no keys."""

    method: str
    path: str
    query: bytes
    headers: Headers
    body: bytes
    client: tuple[str, int]

    @classmethod
    def of(cls, scope: Any, body: bytes, client: tuple[str, int]) -> "Forwarded":
        headers = kept_headers(scope["headers"])
        return cls(scope["method"], scope["path"], scope.get("query_string", b""), headers, body, client)


@dataclass(frozen=True)
class Reply:
    """The answer to a request."""

    status: int
    headers: Headers
    body: bytes


async def call_app(app: ASGIApp, request: Forwarded) -> Reply:
    """Let an app answer a request. When this call is cancelled, so is the app's work on it."""
    status, headers, parts = 500, Headers(), list[bytes]()
    unread = [request.body]

    async def receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await asyncio.Event().wait()  # the client stays; if it leaves, the whole call is cancelled
        raise AssertionError

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], list(message.get("headers", ()))
        else:
            parts.append(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "http",
        "server": None,
        "root_path": "",
        "method": request.method,
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": request.query,
        "headers": request.headers,
        "client": request.client,
    }
    await app(scope, receive, send)
    return Reply(status, headers, b"".join(parts))


def kept_headers(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Without those that are about one connection only."""
    return [(name, value) for name, value in headers if name.lower() not in BETWEEN_HOPS]
