"""The journal of `datamux predict`: one line a row beside the output, so that an interrupted run can go on."""

import importlib.util
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datamux.tasks.files import Row

STDIN = Path("-")
OF_A_MODEL = ("*config.json", "tokenizer.json", "*.safetensors", "*.bin", "*.onnx", "*.xml")  # answers depend on these


def journal_of(output: Path) -> Path:
    return output.with_name(output.name + ".part")


def open_journal(journal: Path, about: dict[str, Any]) -> set[int]:
    """The numbers of the rows that an earlier run has answered.

    A half-written last line is cut off. Another run's journal is an error, unless it holds no answer.
    """
    content = journal.read_bytes() if journal.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    header, *lines = whole.split(b"\n")[:-1] or [b""]  # not splitlines(): a text may hold other line breaks
    if not lines:
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.write_text(json.dumps(about) + "\n", encoding="utf-8")
        return set()
    if len(whole) < len(content):
        os.truncate(journal, len(whole))
    kept, now = json.loads(header), json.loads(json.dumps(about))
    others = [name for name in sorted(now.keys() | kept.keys()) if now.get(name) != kept.get(name)]
    if about["source"] == [str(STDIN)]:
        others = ["stdin"]
    if others:
        what = f"another {', '.join(others)}"
        raise ValueError(
            f"{journal} was left by a run with {what}; remove it to start anew, or repeat that run to go on"
        )
    return {json.loads(line)["n"] for line in lines}


def read_journal(journal: Path) -> list[Row]:
    """Its lines, in the order of the rows."""
    with journal.open(encoding="utf-8") as lines:
        next(lines)
        found = {line["n"]: line for line in map(json.loads, lines)}
    return [found[number] for number in sorted(found)]


@contextmanager
def claimed(journal: Path) -> Iterator[None]:
    """Two runs at once would both answer every row. Where files cannot be locked, nobody is kept out."""
    if importlib.util.find_spec("fcntl") is None:  # Windows, which also removes no file that is open
        yield
        return
    import fcntl

    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"another run is writing {journal} at this moment; wait for it, or stop it") from error
        except OSError:
            pass  # some file systems have no locks
        yield


def identity(source: Path) -> list[Any]:
    """What tells one input, or one folder of a model, from another."""
    if source == STDIN:
        return [str(STDIN)]
    if source.is_dir():
        files = sorted(file for pattern in OF_A_MODEL for file in source.glob(pattern))
        return [str(source), *map(identity, files)]
    state = source.stat()
    return [str(source), state.st_size, state.st_mtime]
