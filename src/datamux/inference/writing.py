"""Writes rows as csv, tsv, jsonl or parquet. Values that a format cannot hold are written as JSON."""

import csv
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from datamux.tasks.files import Row

logger = logging.getLogger(__name__)
DELIMITERS = {".csv": ",", ".tsv": "\t"}


def write_rows(handle: IO[str], suffix: str, rows: Sequence[Row], columns: Sequence[str] = ()) -> None:
    """Write csv, tsv or jsonl. `columns` come first, and then the other columns that the rows have."""
    if suffix == ".jsonl":
        handle.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return
    if suffix not in DELIMITERS:
        raise ValueError(f"rows cannot be written as {suffix!r}; allowed: .jsonl, {', '.join(DELIMITERS)}")
    delimiter = DELIMITERS[suffix]
    names = list(dict.fromkeys([*columns, *_columns(rows)]))
    writer = csv.DictWriter(_Lines(handle), names, delimiter=delimiter, lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _json(v) if isinstance(v, list | dict) else v for name, v in row.items()})


class _Lines:
    """Ends lines with "\\n". The csv module is told "\\r\\n", or it would not quote a "\\r" within a text."""

    def __init__(self, handle: IO[str]) -> None:
        self.handle = handle

    def write(self, line: str) -> None:
        self.handle.write(line.removesuffix("\r\n") + "\n")


def write_parquet(
    file: Path,
    rows: Sequence[Row],
    source: Path,
    numbers: Sequence[int],
    columns: Sequence[str],
    answers: Sequence[str],
) -> None:
    """Write `columns` and `answers` as parquet. If the source is parquet too, its columns keep their types."""
    import pyarrow
    import pyarrow.parquet as parquet

    def column(name: str) -> Any:
        return _as_arrow(name, [row.get(name) for row in rows])

    if source.suffix.lower() == ".parquet":
        table = parquet.read_table(source).take(pyarrow.array([number - 1 for number in numbers], pyarrow.int64()))
        for name in answers:
            if name in table.column_names:
                table = table.drop_columns(name)
            table = table.append_column(name, column(name))
    else:
        names = dict.fromkeys([*columns, *_columns(rows), *answers])
        table = pyarrow.table({name: column(name) for name in names})
    parquet.write_table(table, file)


def _as_arrow(name: str, values: list[Any]) -> Any:
    """A column of parquet has one type. If the values have several, the column is text."""
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        found = pyarrow.array(values)
        no_rows = pyarrow.table({name: found.slice(0, 0)})  # Arrow knows types that parquet does not
        parquet.write_table(no_rows, pyarrow.BufferOutputStream())
    except (pyarrow.ArrowException, OverflowError):
        logger.warning(
            "column %r has values of several types: in parquet they become text, and lists become JSON", name
        )
        return pyarrow.array([v if v is None or isinstance(v, str) else _json(v) for v in values], pyarrow.string())
    return found


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
