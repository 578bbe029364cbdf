"""`datamux predict`: a file in, a file out. Columns and order are kept, and a bad row does not stop the run.

Every answer is first written to a journal beside the output: one line per row, in the order in which passes end. A run
that continues an interrupted one reads the journal and answers the remaining rows. The output itself is written at the
end, in order and in one piece.
"""

import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from datamux.grouping import check_group_size
from datamux.inference.answers import LABEL, SPAN
from datamux.inference.journal import STDIN, claimed, identity, journal_of, open_journal, read_journal
from datamux.inference.predictor import Predictor
from datamux.inference.texts import Text
from datamux.tasks.files import (
    BadFile,
    Row,
    format_of,
    header_of,
    is_table,
    iterate_lines,
    iterate_rows,
    iterate_text_file,
    table_suffixes,
    write_table,
    wrong_bytes,
)
from datamux.tasks.formats.base import Origin

PREFIX = "predicted_"
SHOWN = 5  # this many bad rows are reported at the end
LINES = ".txt"  # one text per line, as on stdin
INPUTS = (LINES, *table_suffixes())


@dataclass(frozen=True)
class Item:
    """One row of the input. `problem` says what is wrong with it; it is None for a good row."""

    number: int  # counted from 1, as a person would
    row: Row
    text: Text = None
    problem: str | None = None


@dataclass(frozen=True)
class Done:
    """What a run did."""

    rows: int
    bad: int
    resumed_after: int  # how many rows an earlier run had answered
    problems: tuple[str, ...] = ()  # what was wrong with the first bad rows


def predict_file(
    predictor: Predictor,
    source: Path,
    output: Path,
    *,
    text: Sequence[str] = ("text",),
    group_size: int | None = None,
    prefix: str = PREFIX,
    progress: bool = False,
    settings: dict[str, Any] | None = None,
    piece: bool = False,
) -> Done:
    """Answer every row of `source` into `output`, in columns whose names begin with `prefix`.

    An interrupted run is continued only if its `settings` were the same. A `piece` of a larger file of JSON lines may
    lack the columns altogether: its rows are then bad rows, as they would be within the file.
    """
    job = _Job(predictor, source, output, text, group_size, answer_columns(predictor, prefix), piece)
    job.check()  # first: a mistake must not leave a journal
    journal = journal_of(output)
    about = {"source": identity(source), "text": list(text), "group_size": group_size, "prefix": prefix}
    with claimed(journal):
        before = open_journal(journal, about | (settings or {}))
        job.answer_into(journal, before, progress)
        return job.finish(journal, len(before))


@dataclass(frozen=True)
class _Job:
    """A file to answer; `answers` are the columns for answers, each with an example."""

    predictor: Predictor
    source: Path
    output: Path
    text: Sequence[str]
    group_size: int | None
    answers: Mapping[str, Any]
    piece: bool = False

    def check(self) -> None:
        """Report every mistake that can be found before the first answer."""
        source, output, text = self.source, self.output, self.text
        if not is_table(output):
            raise ValueError(f"the output must end in {', '.join(table_suffixes())}, got {str(output)!r}")
        if source.resolve() in [file.resolve() for file in (output, journal_of(output), errors_of(output))]:
            raise ValueError(f"{source} would be written over; choose another output file than {output}")
        if self.group_size is not None:
            check_group_size(self.group_size, self.predictor.num_instances)
        for file in (source, output):
            if is_table(file):
                format_of(file).check()  # a missing library is reported now, and not after all rows are answered
        if source == STDIN:
            return
        tags = self.predictor.token_level
        if len(text) > (1 if tags else 2):
            kind = "a tagger takes one column" if tags else "a classifier takes one column or a pair"
            raise ValueError(f"{kind} of texts, got {len(text)}: {', '.join(text)}")
        next(read_items(source, text), None)  # fails if the file cannot be read
        if not _is_lines(source):
            if not (self.piece and format_of(source).by_lines):
                _check_columns(source, text)
            _check_free(source, self.answers)

    def answer_into(self, journal: Path, before: set[int], progress: bool) -> None:
        """Write one journal line for every row whose number is not in `before`."""

        def items() -> Iterator[Item]:
            every = read_items(self.source, self.text, token_level=self.predictor.token_level)
            return (item for item in every if item.number not in before)

        letters = None
        if progress and self.source != STDIN:
            letters = sum(self.predictor.texts.letters(item.text) for item in items() if not item.problem)
        with journal.open("a", encoding="utf-8", buffering=1) as lines:  # after a kill, every pass that ended is kept
            for item, answer in _answered(self.predictor, items(), self.group_size, progress, letters):
                line: Row = {"n": item.number}
                if item.problem:
                    line |= {"bad": item.problem, "row": item.row}
                else:
                    parts = (answer["label"], answer["score"]) if isinstance(answer, dict) else (answer,)
                    line["out"] = item.row | dict(zip(self.answers, parts, strict=True))
                lines.write(json.dumps(line, default=str) + "\n")

    def finish(self, journal: Path, before: int) -> Done:
        """Write the output and the file of bad rows from the journal; then remove the journal.

        The output has the columns of the source and the answers, even if it has no rows.
        """
        lines = read_journal(journal)
        good = [line for line in lines if "out" in line]
        bad = [{"row_number": line["n"], "problem": line["bad"], "row": line["row"]} for line in lines if "bad" in line]
        part = self.output.with_name(self.output.name + ".new")
        rows, header = [line["out"] for line in good], ["text"] if _is_lines(self.source) else header_of(self.source)
        origin = Origin(self.source, [line["n"] for line in good], self.answers)
        columns = header if rows else [*header, *self.answers]
        write_table(part, format_of(self.output), rows, columns, origin)
        part.replace(self.output)
        errors = errors_of(self.output)
        errors.unlink(missing_ok=True)
        if bad:
            errors.write_text("".join(json.dumps(line) + "\n" for line in bad), encoding="utf-8")
        journal.unlink()
        return Done(len(good), len(bad), before, tuple(f"row {b['row_number']}: {b['problem']}" for b in bad[:SHOWN]))


def read_items(source: Path, text: Sequence[str], *, token_level: bool = False) -> Iterator[Item]:
    """The rows of a file, or of stdin (one text per line), each with its text or with what is wrong with it."""
    lines = _is_lines(source)
    if not (lines or is_table(source)):
        raise BadFile(
            source, f"unknown kind of file {source.suffix.lower()!r}; allowed: {', '.join(INPUTS)}, or - for stdin"
        )
    if source != STDIN and not source.exists():
        raise BadFile(source, "no such file")
    columns = ["text"] if lines else list(text)
    for number, (row, problem) in enumerate(_lines(source) if lines else iterate_rows(source), 1):
        problem = problem or _missing(row, columns, token_level) or _not_text(row)
        given = None if problem else [row[column] for column in columns]
        yield Item(number, row, None if given is None else given[0] if len(given) == 1 else tuple(given), problem)


def answer_columns(predictor: Predictor, prefix: str = PREFIX) -> dict[str, Any]:
    """The columns for answers, each with an example. The prefix makes it unlikely that the file already has them."""
    if predictor.token_level:
        return {f"{prefix}spans": [SPAN]}
    several = predictor.problem == "multi_label_classification" or (
        predictor.problem == "regression" and len(predictor.names) > 1
    )
    return {f"{prefix}labels": [LABEL]} if several else {f"{prefix}{name}": value for name, value in LABEL.items()}


def answer_names(prefix: str = PREFIX) -> list[str]:
    """The names that answers may have, whatever the model."""
    return [f"{prefix}{name}" for name in (*LABEL, "labels", "spans")]


def _answered(
    predictor: Predictor, items: Iterable[Item], group_size: int | None, progress: bool, letters: int | None
) -> Iterator[tuple[Item, Any]]:
    """Every good item with its answer, pass by pass; then the bad items, which the model does not see."""
    waiting: dict[int, Item] = {}
    bad: list[Item] = []

    def texts() -> Iterator[Text]:
        places = count()
        for item in items:
            if item.problem is None:
                waiting[next(places)] = item
                yield item.text
            else:
                bad.append(item)

    answers = predictor.as_they_come(texts(), group_size=group_size, progress=progress, letters=letters)
    for place, answer in answers:
        yield waiting.pop(place), answer
    yield from ((item, None) for item in bad)


def errors_of(output: Path) -> Path:
    """The file for bad rows, beside the output."""
    return output.with_name(output.name + ".errors.jsonl")


def _is_lines(source: Path) -> bool:
    """Whether every line of an input is a text."""
    return source == STDIN or source.suffix.lower() == LINES


def _lines(source: Path) -> Iterator[tuple[Row, str | None]]:
    if source != STDIN:
        yield from iterate_text_file(source)
        return
    try:
        with open(sys.stdin.fileno(), encoding="utf-8", errors="surrogateescape", closefd=False) as lines:
            yield from iterate_lines(lines)
    except io.UnsupportedOperation:  # something replaced stdin that is not a real file
        yield from iterate_lines(sys.stdin)


def _check_columns(source: Path, columns: Sequence[str]) -> None:
    """The header must have these columns. Without a header, one row must; others that lack them are bad rows."""

    def good() -> Iterator[Row]:
        return (row for row, problem in iterate_rows(source) if problem is None)

    has_header = format_of(source).header is not None
    known = header_of(source) if has_header else next(good(), {})
    for column in columns:
        if column in known or (not has_header and any(column in row for row in good())):
            continue
        if known:
            raise BadFile(
                source, f"no such column; there are: {', '.join(known)}; choose one with --text", None, column
            )


def _check_free(source: Path, answers: Iterable[str]) -> None:
    """Answers must not replace columns that the file already has, such as the answers of another model."""
    if format_of(source).header is not None:
        names: Iterable[Iterable[str]] = [header_of(source)]
    else:
        names = (row for row, problem in iterate_rows(source) if problem is None)
    for known in names:
        for column in answers:
            if column in known:
                raise BadFile(source, "is where an answer would go; choose other names with --prefix", None, column)


def _missing(row: Row, columns: Sequence[str], token_level: bool) -> str | None:
    """What is wrong with the texts of a row, or None. A tagger also takes lists of words."""
    for column in columns:
        if column not in row:
            return f"has no column {column!r}"
        value = row[column]
        words = token_level and isinstance(value, list) and all(isinstance(word, str) for word in value)
        if value is None or value == [] or ((isinstance(value, str) or words) and not "".join(value).strip()):
            return f"column {column!r} is empty"
        if not isinstance(value, str) and not words:
            return f"column {column!r} holds {value!r}, not a text"
    return None


def _not_text(row: Row) -> str | None:
    """JSON can hold half characters, in any column. They could not be written to the output."""
    return wrong_bytes(json.dumps(row, ensure_ascii=False, default=str))
