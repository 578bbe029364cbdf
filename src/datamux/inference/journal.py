"""The journal of `datamux predict`: a file beside the output with one line per row, so that a run can be continued."""

import importlib.util
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datamux.hub.frozen import base_model_of
from datamux.inference.exported import CARD
from datamux.inference.preferences import FILE
from datamux.tasks.files import Row
from datamux.zoo import find_model

STDIN = Path("-")
# Answers depend on these files of a model's folder; the last two say how it is run.
OF_A_MODEL = ("*config.json", "tokenizer.json", "*.safetensors", "*.bin", "*.onnx", "*.xml", CARD, FILE)


def journal_of(output: Path) -> Path:
    return output.with_name(output.name + ".part")


def open_journal(journal: Path, about: dict[str, Any]) -> set[int]:
    """The numbers of the rows that an earlier run has answered.

    A half-written last line is cut off. A journal that another run left is an error, unless it has no answers.
    """
    content = journal.read_bytes() if journal.exists() else b""
    complete = content[: content.rfind(b"\n") + 1]  # without a half-written line
    header, *lines = complete.split(b"\n")[:-1] or [b""]  # splitlines() would also split at other line breaks
    if not lines:
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.write_text(json.dumps(about) + "\n", encoding="utf-8")
        return set()
    if len(complete) < len(content):
        os.truncate(journal, len(complete))
    then, now = json.loads(header), json.loads(json.dumps(about))
    others = [name for name in sorted(now.keys() | then.keys()) if now.get(name) != then.get(name)]
    if about["source"] == [str(STDIN)]:
        others = ["stdin"]
    if others:
        what = f"another {', '.join(others)}"
        raise ValueError(
            f"{journal} was left by a run with {what}; remove it to start anew, or repeat that run to continue it"
        )
    return {json.loads(line)["n"] for line in lines}


def read_journal(journal: Path) -> list[Row]:
    """The lines of a journal, in the order of the rows."""
    with journal.open(encoding="utf-8") as lines:
        next(lines)
        found = {line["n"]: line for line in map(json.loads, lines)}
    return [found[number] for number in sorted(found)]


@contextmanager
def claimed(journal: Path) -> Iterator[None]:
    """Keep other runs out, which would answer the same rows. On systems without file locks this does nothing."""
    if importlib.util.find_spec("fcntl") is None:  # Windows, which could not remove the open file either
        yield
        return
    import fcntl

    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"another run is writing {journal} right now; wait for it to end, or stop it") from error
        except OSError:
            pass  # some file systems have no locks
        yield


def identity(source: Path) -> list[Any]:
    """What tells this input, or this folder of a model, apart from others."""
    if source == STDIN:
        return [str(STDIN)]
    if source.is_dir():
        files = sorted(file for pattern in OF_A_MODEL for file in source.glob(pattern))
        base = Path(find_model(base_model_of(source) or source))  # a frozen classifier, which answers single texts
        return [str(source), *map(identity, files), *([identity(base)] if base != source and base.exists() else [])]
    state = source.stat()
    return [str(source), state.st_size, state.st_mtime]
