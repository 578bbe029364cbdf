"""JSON lines: one object per line, each with its own columns."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from datamux.tasks.formats.base import Format, Origin, Row, printable, wrong_bytes


def read(file: Path) -> Iterator[tuple[Row, str | None]]:
    with file.open(encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            text = line.strip()
            if not text:
                continue
            problem = wrong_bytes(text)
            row: Any = None
            try:
                row = json.loads(text)
            except json.JSONDecodeError as error:
                problem = problem or f"is not JSON: {error}"
            if problem is None and not isinstance(row, dict):
                problem = "is not a JSON object"
            yield (row, None) if problem is None else ({"line": printable(text)}, problem)


def write(file: Path, rows: Sequence[Row], columns: Sequence[str], origin: Origin | None) -> None:
    with file.open("w", encoding="utf-8", newline="") as handle:
        handle.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


JSON_LINES = Format(read, write, by_lines=True)
