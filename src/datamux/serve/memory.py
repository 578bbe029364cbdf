"""Keeps the server's memory flat. malloc keeps freed memory in pieces that are too scattered to be used again."""

import asyncio
import ctypes
import gc
import os
import sys
from pathlib import Path

EVERY = 30.0  # seconds
COLLECT_AFTER = 10_000  # new objects; Python's own choice is 700


def keep_what_is_loaded() -> None:
    """Let Python's garbage collector leave out what is there now, and run less often.

    A model and its libraries are a million objects: to look through them takes a tenth of a second, in which nobody is
    answered.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 10, 10)


def give_back() -> None:
    """Give freed memory back to the system, where the C library can do so (glibc)."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


async def give_back_regularly() -> None:
    """Until cancelled, and off the event loop: it takes some milliseconds."""
    while True:
        await asyncio.sleep(EVERY)
        await asyncio.get_running_loop().run_in_executor(None, give_back)


def megabytes() -> float:
    """How much memory this process holds, when freed memory is given back; 0 where the system does not tell."""
    give_back()
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
