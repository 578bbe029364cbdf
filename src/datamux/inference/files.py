"""`datamux predict`: a file in, a file out. Every column and the order are kept; a bad row stops nothing.

Answers go to a journal beside the output, one line a row, pass by pass, in whatever order they come. A run that was
interrupted reads it and answers the other rows; the output itself is written at the end, in order and in one piece.
"""

import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, Any

from datamux.grouping import check_group_size
from datamux.inference.journal import STDIN, claimed, identity, journal_of, open_journal, read_journal
from datamux.inference.predictor import Predictor
from datamux.inference.texts import Text
from datamux.inference.writing import OUTPUTS, write_parquet, write_rows
from datamux.tasks.files import BadFile, Row, header_of, iterate_lines, iterate_rows, need_pyarrow, wrong_bytes

PREFIX = "predicted_"
SHOWN = 5  # bad rows that are told at the end
INPUTS = (".txt", ".csv", ".tsv", ".jsonl", ".parquet")


@dataclass(frozen=True)
class Item:
    """One row of the input; `problem` says what is wrong with it, if anything is."""

    number: int  # from 1, as a person counts
    row: Row
    text: Text = None
    problem: str | None = None


@dataclass(frozen=True)
class Done:
    """What a run did."""

    rows: int
    bad: int
    resumed_after: int  # rows that an earlier run had answered
    problems: tuple[str, ...] = ()  # of the first bad rows


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
) -> Done:
    """Answer every row of `source` into `output`, in columns whose names begin with `prefix`.

    `settings` is what must be the same for a run to be gone on with.
    """
    answers = answer_columns(predictor, prefix)
    check_before(predictor, source, output, text, group_size, answers)  # a mistake shall leave no journal
    journal = journal_of(output)
    about = {"source": identity(source), "text": list(text), "group_size": group_size, "prefix": prefix}
    with claimed(journal):
        before = open_journal(journal, about | (settings or {}))
        _answer_into(journal, predictor, source, text, group_size, answers, progress, before)
        return finish(source, output, journal, len(before), answers)


def _answer_into(
    journal: Path,
    predictor: Predictor,
    source: Path,
    text: Sequence[str],
    group_size: int | None,
    answers: Sequence[str],
    progress: bool,
    before: set[int],
) -> None:
    """A line for every row of `source` that is not among those of `before`."""

    def items() -> Iterator[Item]:
        every = read_items(source, text, token_level=predictor.token_level)
        return (item for item in every if item.number not in before)

    letters = None
    if progress and source != STDIN:
        letters = sum(predictor.texts.letters(item.text) for item in items() if not item.problem)
    with journal.open("a", encoding="utf-8", buffering=1) as lines:  # line by line: a kill loses no pass that ended
        for item, answer in _answered(predictor, items(), group_size, progress, letters):
            line: Row = {"n": item.number}
            if item.problem:
                line |= {"bad": item.problem, "row": item.row}
            else:
                line["out"] = item.row | as_columns(answer, answers)
            lines.write(json.dumps(line, default=str) + "\n")


def check_before(
    predictor: Predictor,
    source: Path,
    output: Path,
    text: Sequence[str],
    group_size: int | None,
    answers: Sequence[str],
) -> None:
    """What can be seen to be wrong before the first answer."""
    if output.suffix.lower() not in OUTPUTS:
        raise ValueError(f"the output must end in {', '.join(OUTPUTS)}, got {str(output)!r}")
    if source.resolve() in [file.resolve() for file in (output, journal_of(output), _errors_of(output))]:
        raise ValueError(f"{source} would be written over; choose another output than {output}")
    if group_size is not None:
        check_group_size(group_size, predictor.num_instances)
    if ".parquet" in (source.suffix.lower(), output.suffix.lower()):
        need_pyarrow()  # now, not after everything is answered
    if source == STDIN:
        return
    many = 1 if predictor.token_level else 2
    if len(text) > many:
        kind = "a tagger takes one column" if predictor.token_level else "a classifier takes one column or a pair"
        raise ValueError(f"{kind} of texts, got {len(text)}: {', '.join(text)}")
    next(read_items(source, text), None)  # is it a file that can be read?
    if source.suffix.lower() != ".txt":
        _check_columns(source, text)
        _check_free(source, answers)


def read_items(source: Path, text: Sequence[str], *, token_level: bool = False) -> Iterator[Item]:
    """The rows of a file (or of stdin, a text a line), each with its text or with what is wrong with it."""
    suffix = ".txt" if source == STDIN else source.suffix.lower()
    if suffix not in INPUTS:
        raise BadFile(source, f"unknown kind of file {suffix!r}; allowed: {', '.join(INPUTS)}, or - for stdin")
    if source != STDIN and not source.exists():
        raise BadFile(source, "no such file")
    columns = ["text"] if suffix == ".txt" else list(text)
    for number, (row, problem) in enumerate(_lines(source) if suffix == ".txt" else iterate_rows(source), 1):
        problem = problem or _missing(row, columns, token_level) or _not_text(row)
        given = None if problem else [row[column] for column in columns]
        yield Item(number, row, None if given is None else given[0] if len(given) == 1 else tuple(given), problem)


def as_columns(answer: Any, columns: Sequence[str]) -> Row:
    """An answer as the columns of `answer_columns`."""
    parts = (answer["label"], answer["score"]) if isinstance(answer, dict) else (answer,)
    return dict(zip(columns, parts, strict=True))


def answer_columns(predictor: Predictor, prefix: str = PREFIX) -> list[str]:
    """The columns that answers go to, under names that a file of its own will hardly have."""
    if predictor.token_level:
        return [f"{prefix}spans"]
    several = predictor.problem == "multi_label_classification" or (
        predictor.problem == "regression" and len(predictor.names) > 1
    )
    return [f"{prefix}labels"] if several else [f"{prefix}label", f"{prefix}score"]


def finish(source: Path, output: Path, journal: Path, before: int, answers: Sequence[str]) -> Done:
    """Write the output, and the bad rows beside it, from the journal; then remove the journal.

    The columns are those of the source and of the `answers`, even if there is no row.
    """
    kept = read_journal(journal)
    good = [line for line in kept if "out" in line]
    bad = [{"row_number": line["n"], "problem": line["bad"], "row": line["row"]} for line in kept if "bad" in line]
    part = output.with_name(output.name + ".new")
    rows, header = [line["out"] for line in good], header_of(source)
    if output.suffix.lower() == ".parquet":
        write_parquet(part, rows, source, [line["n"] for line in good], header, answers)
    else:
        columns = [] if rows else [*header, *answers]
        with part.open("w", encoding="utf-8", newline="") as handle:
            write_rows(handle, output.suffix.lower(), rows, columns)
    part.replace(output)
    errors = _errors_of(output)
    errors.unlink(missing_ok=True)
    if bad:
        errors.write_text("".join(json.dumps(line) + "\n" for line in bad), encoding="utf-8")
    journal.unlink()
    return Done(len(good), len(bad), before, tuple(f"row {b['row_number']}: {b['problem']}" for b in bad[:SHOWN]))


def _answered(
    predictor: Predictor, items: Iterable[Item], group_size: int | None, progress: bool, letters: int | None
) -> Iterator[tuple[Item, Any]]:
    """Every item with its answer, pass by pass; the bad ones pass by the model."""
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


def _errors_of(output: Path) -> Path:
    return output.with_name(output.name + ".errors.jsonl")


def _lines(source: Path) -> Iterator[tuple[Row, str | None]]:
    with _open(source) as lines:
        yield from iterate_lines(lines)


def _open(source: Path) -> IO[str]:
    if source != STDIN:
        return source.open(encoding="utf-8", errors="surrogateescape")
    try:
        return open(sys.stdin.fileno(), encoding="utf-8", errors="surrogateescape", closefd=False)
    except io.UnsupportedOperation:  # a stand-in without a file
        return sys.stdin


def _check_columns(source: Path, columns: Sequence[str]) -> None:
    """The header must have them; of JSON lines some line: that another has not is its own mistake."""

    def good() -> Iterator[Row]:
        return (row for row, problem in iterate_rows(source) if problem is None)

    lines = source.suffix.lower() == ".jsonl"
    known = next(good(), {}) if lines else header_of(source)
    for column in columns:
        if column in known or (lines and any(column in row for row in good())):
            continue
        if known:
            raise BadFile(source, f"no such column; there are: {', '.join(known)}; choose with --text", None, column)


def _check_free(source: Path, answers: Sequence[str]) -> None:
    """Answers shall not replace what a file holds already, for example those of another model."""
    lines = source.suffix.lower() == ".jsonl"
    names = (row for row, problem in iterate_rows(source) if problem is None) if lines else [header_of(source)]
    for known in names:
        for column in answers:
            if column in known:
                raise BadFile(source, "is where an answer would go; choose other names with --prefix", None, column)


def _missing(row: Row, columns: Sequence[str], token_level: bool) -> str | None:
    """What is wrong with the texts of a row, if anything. A tagger takes lists of words as well."""
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
    """JSON can hold half characters, in any column, which cannot be written again."""
    return wrong_bytes(json.dumps(row, ensure_ascii=False, default=str))
