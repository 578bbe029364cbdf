"""Tables in every format that the package reads and writes: one format per file, and the dict `FORMATS`."""

from datamux.tasks.formats.base import Format
from datamux.tasks.formats.delimited import delimited_by
from datamux.tasks.formats.json_lines import JSON_LINES
from datamux.tasks.formats.parquet import PARQUET, SUFFIX

FORMATS: dict[str, Format] = {
    ".jsonl": JSON_LINES,
    ".csv": delimited_by(","),
    ".tsv": delimited_by("\t"),
    SUFFIX: PARQUET,
}
