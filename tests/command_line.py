"""The command line for tests. `run` calls it in this process, which saves the seconds that importing torch takes.

`run` goes through `main`, as the installed command does, so exit codes and error messages are the real ones. Whatever
a command changes in the process is put back. `command` is for the tests that need a process of their own: to kill it,
to pipe into it, or to show that a command works when nothing is imported yet.
"""

import contextlib
import io
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import torch

from datamux.cli import main


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object, cwd: Path | None = None) -> Done:
    """Run `datamux ARGUMENTS` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        _as_in_a_new_process(),
        contextlib.chdir(cwd or Path.cwd()),
        patch.object(sys, "argv", ["datamux", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = _exit_code()
    return Done(code, out.getvalue(), err.getvalue())


def succeed(*arguments: object, cwd: Path | None = None) -> str:
    """Run `datamux ARGUMENTS` in this process; it must succeed. Returns what it printed."""
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def command(*arguments: object) -> list[str]:
    """The words that start `datamux ARGUMENTS` in a process of its own."""
    return [sys.executable, "-m", "datamux.cli", *map(str, arguments)]


def _exit_code() -> int:
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@contextlib.contextmanager
def _as_in_a_new_process():
    """No log handlers yet, one thread, and a terminal so wide that no table is broken. Everything is put back."""
    root, ours, threads = logging.getLogger(), logging.getLogger("datamux"), torch.get_num_threads()
    handlers, level = root.handlers[:], ours.level
    root.handlers = []
    torch.set_num_threads(1)
    try:
        with patch.dict(os.environ, {"COLUMNS": "250"}), torch.random.fork_rng(devices=[]):
            yield
    finally:
        root.handlers = handlers
        ours.setLevel(level)
        torch.set_num_threads(threads)
