"""Writes answers as JSON, and the headers that say how they came about.

One event loop answers everybody, so the answers of many texts are written in parts, and others have their turn between
two of them. The few answers of a usual request are one part, which costs nothing more.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from datamux.serve.tickets import Answers

PART = 256  # texts that are written at once: about a millisecond
T = TypeVar("T")


def as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


async def in_parts(items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """The items, some at a time. Other requests have their turn before the next ones."""
    for start in range(0, len(items), PART):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + PART]


async def list_as_json(items: Sequence[T], write: Callable[[T], Any]) -> bytes:
    """The list of what `write` makes of each item."""
    parts = [as_json([write(one) for one in some])[1:-1] async for some in in_parts(items)]
    return b"[%b]" % b",".join(parts)


def object_as_json(fields: dict[str, Any]) -> bytes:
    """An object; what is bytes already is JSON already."""
    written = (
        b"%b:%b" % (as_json(name), value if isinstance(value, bytes) else as_json(value))
        for name, value in fields.items()
    )
    return b"{%b}" % b",".join(written)


class Told(NamedTuple):
    """What the sender of a request is told about its answers, and what is logged."""

    texts: int
    tokens: int
    gears: str
    headers: dict[str, str]


async def about(found: Answers) -> Told:
    """How the answers of a request came about. Times are in milliseconds."""
    gears: set[str] = set()
    sizes: set[int] = set()
    ran: dict[int, float] = {}  # seconds of each pass
    tokens = cut = 0
    queued = 0.0
    async for some in in_parts(found):
        for one in some:
            gears.add(one.gear.name)
            sizes.add(one.group_size)
            ran[one.number] = one.ran
            queued = max(queued, one.queued)
            tokens += one.answer.tokens
            cut += one.answer.cut
    inference, used = sum(ran.values()), ",".join(sorted(gears))
    headers = {
        "x-compute-time": f"{(found.tokenising + inference) * 1000:.1f}",
        "x-tokenization-time": f"{found.tokenising * 1000:.1f}",
        "x-queue-time": f"{queued * 1000:.1f}",
        "x-inference-time": f"{inference * 1000:.1f}",
        "x-compute-tokens": str(tokens),
        "x-datamux-n": ",".join(map(str, sorted(sizes))),
        "x-datamux-gear": used,
    }
    if cut:
        headers["x-datamux-cut"] = str(cut)
    return Told(len(found), tokens, used, headers)
