"""parquet, with pyarrow: a table whose columns have one type each."""

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from datamux.errors import import_extra
from datamux.tasks.formats.base import BadFile, Format, Origin, Row

logger = logging.getLogger(__name__)
SUFFIX = ".parquet"


def need_pyarrow() -> Any:
    """The part of pyarrow that reads and writes parquet; raises with the name of the extra to install."""
    return import_extra("pyarrow.parquet", "parquet files need", "train")


def read(file: Path) -> Iterator[tuple[Row, str | None]]:
    parquet = need_pyarrow()
    import pyarrow

    try:
        for batch in parquet.ParquetFile(file).iter_batches():
            yield from ((row, None) for row in batch.to_pylist())
    except pyarrow.ArrowException as error:
        raise BadFile(file, f"is not a parquet file: {error}") from error


def header(file: Path) -> list[str]:
    return list(need_pyarrow().read_schema(file).names)


def write(file: Path, rows: Sequence[Row], columns: Sequence[str], origin: Origin | None) -> None:
    """Write the rows. If they were read from parquet too, their columns keep their types.

    Added columns have the type of their example, whatever the rows hold: parts of one data set must fit together.
    """
    import pyarrow
    import pyarrow.parquet as parquet

    examples = {} if origin is None else origin.added

    def column(name: str) -> Any:
        example = [examples[name]] if name in examples else []
        return _as_arrow(name, [*example, *(row.get(name) for row in rows)]).slice(len(example))

    if origin is not None and origin.file.suffix.lower() == SUFFIX:
        places = pyarrow.array([number - 1 for number in origin.numbers], pyarrow.int64())
        table = parquet.read_table(origin.file).take(places)
        for name in origin.added:
            if name in table.column_names:
                table = table.drop_columns(name)
            table = table.append_column(name, column(name))
    else:
        table = pyarrow.table({name: column(name) for name in columns})
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
        return pyarrow.array(
            [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values],
            pyarrow.string(),
        )
    return found


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


PARQUET = Format(read, write, header, check=need_pyarrow)
