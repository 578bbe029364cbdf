"""Rows to csv, tsv, jsonl and parquet. Any column can be written: as JSON where the format has no other way."""

import csv
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from datamux.tasks.files import Row

logger = logging.getLogger(__name__)
OUTPUTS = (".csv", ".tsv", ".jsonl", ".parquet")


def check_parquet(*files: Path) -> None:
    """Say that pyarrow is missing before anything is answered, not after."""
    if any(file.suffix.lower() == ".parquet" for file in files):
        try:
            import pyarrow.parquet  # noqa: F401
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("parquet files need: pip install 'datamux[train]'") from error


def write_rows(handle: IO[str], suffix: str, rows: Sequence[Row]) -> None:
    """As csv, tsv or jsonl."""
    if suffix == ".jsonl":
        handle.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return
    delimiter = "\t" if suffix == ".tsv" else ","
    writer = csv.DictWriter(handle, _columns(rows), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _json(v) if isinstance(v, list | dict) else v for name, v in row.items()})


def write_parquet(file: Path, rows: Sequence[Row], source: Path, numbers: Sequence[int]) -> None:
    """From a parquet file, its own columns keep their types."""
    import pyarrow
    import pyarrow.parquet as parquet

    columns = {name: _as_arrow(name, [row.get(name) for row in rows]) for name in _columns(rows)}
    table = pyarrow.table(columns)
    if source.suffix.lower() == ".parquet":
        table = parquet.read_table(source).take(pyarrow.array([number - 1 for number in numbers], pyarrow.int64()))
        for name in (name for name in columns if name.startswith("predicted_")):
            if name in table.column_names:
                table = table.drop_columns(name)
            table = table.append_column(name, columns[name])
    parquet.write_table(table, file)


def _as_arrow(name: str, values: list[Any]) -> Any:
    """A column of parquet has one type; where the values have several, it is text."""
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        found = pyarrow.array(values)
        nothing = pyarrow.table({name: found.slice(0, 0)})  # some types are known to Arrow and not to parquet
        parquet.write_table(nothing, pyarrow.BufferOutputStream())
    except (pyarrow.ArrowException, OverflowError):
        logger.warning("column %r has values of several kinds: parquet gets them as text, lists as JSON", name)
        return pyarrow.array([v if v is None or isinstance(v, str) else _json(v) for v in values], pyarrow.string())
    return found


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
