"""What a client may send, and how slowly: the body limit, and connections that send too slowly or nothing at all."""

import asyncio
from typing import Any

from fastapi import Request

from datamux.serve.errors import ClientGone, Problem, error_body

MAX_HEAD = 65_536  # bytes


class Bodies:
    """How much is held of bodies that are still being read: many slow senders must not fill the memory."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def hold(self, size: int) -> None:
        """Count this many bytes more; raise if that is too much."""
        self.held += size
        if self.held > self.most:
            told = "too many requests are being sent at the same time; try again later"
            raise Problem(429, told, {"connection": "close", "retry-after": "1"})


async def read_body(request: Request, most: int, seconds: float, bodies: Bodies | None = None) -> bytes:
    """The whole body: at most `most` bytes, within `seconds`, and with all other `bodies` not too much."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > most:
        raise _too_large(most)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part = message.get("body", b"")
                size += len(part)
                if size > most:
                    raise _too_large(most)
                parts.append(part)
                if bodies is not None:
                    bodies.hold(len(part))
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise Problem(408, f"the request was not sent within {seconds:g} seconds", {"connection": "close"}) from None
    finally:
        if bodies is not None:
            bodies.held -= sum(map(len, parts))


def _too_large(most: int) -> Problem:
    return Problem(
        413,
        f"the request body is longer than {most} bytes; send fewer texts in one request, "
        "or start the server with a larger --max-body-bytes",
        {"connection": "close"},
    )


def patient_protocol(seconds: float) -> Any:
    """uvicorn's protocol, for clients that send the head of a request within `seconds`; others are disconnected.

    A head has a largest size, and the answer to what is not HTTP has the same format as every other error.
    """
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    base: Any = AutoHTTPProtocol

    class Patient(base):  # type: ignore[misc]
        _timer: asyncio.TimerHandle | None = None
        _head = 0  # bytes of the head so far, in headers that are complete
        _unread = 0  # bytes of a head that is not complete
        _in_body = not hasattr(base, "on_headers_complete")  # h11 has no such step, and limits heads itself

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._start_timer()

        def data_received(self, data: bytes) -> None:
            began_in_body = self._in_body
            super().data_received(data)
            if self.cycle is None or self.cycle.response_complete:
                self._unread = 0 if began_in_body or self._in_body else self._unread + len(data)
                if self._unread > MAX_HEAD and not self.transport.is_closing():
                    self.send_400_response("The head of the request is too long.")
                elif self._timer is None:
                    self._start_timer()  # part of the next request's head has come
            else:
                self._unread = 0
                self._stop_timer()

        def on_message_begin(self) -> None:
            self._head = 0
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._in_body = True
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._in_body = False
            self._unread = 0
            super().on_message_complete()

        def on_header(self, name: bytes, value: bytes) -> None:
            self._head += len(name) + len(value)
            if self._head > MAX_HEAD:
                raise ValueError("the head of the request is too long")
            super().on_header(name, value)

        def connection_lost(self, error: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(error)

        def send_400_response(self, message: str) -> None:
            body = error_body(400, message)
            head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
            self.transport.close()

        def _start_timer(self) -> None:
            self._timer = self.loop.call_later(seconds, self._give_up)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    return Patient
