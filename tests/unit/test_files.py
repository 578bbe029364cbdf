"""Good files are read, bad ones are named with their row and column."""

import json
import lzma

import pytest

from datamux.tasks.files import (
    BadFile,
    check_columns,
    format_of,
    header_of,
    iterate_lines,
    iterate_rows,
    read_lines,
    read_table,
)

ROWS = [{"text": "good, really", "label": "1"}, {"text": 'he said "no"', "label": "0"}]


def test_every_kind_gives_the_same_rows(tmp_path):
    import csv

    import pyarrow
    import pyarrow.parquet

    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS) + "\n")
    for name, delimiter in (("a.csv", ","), ("a.tsv", "\t")):
        with (tmp_path / name).open("w", newline="") as handle:
            writer = csv.DictWriter(handle, ["text", "label"], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(ROWS)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.csv", "a.tsv", "a.parquet"):
        assert read_table(tmp_path / name) == ROWS, name


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "x"}\n{"text": \n', r"a\.jsonl, row 2: is not JSON"),
        ("a.jsonl", "[1]\n", r"a\.jsonl, row 1: is not a JSON object"),
        ("a.csv", "text,label\nx,1\ny\n", r"a\.csv, row 2: has 1 fields, and the header 2"),
        ("a.csv", "text,label\nx,1,2\n", r"a\.csv, row 1: has 3 fields, and the header 2"),
        ("a.csv", 'text,label\n"x,1\n', r"a\.csv, row \d+: is not well-formed"),
        ("a.csv", '"te"xt,label\nx,1\n', r"a\.csv: its header is not well-formed"),
        ("a.csv", "text,label,text\nx,1,y\n", r"a\.csv, column 'text': is twice in the header"),
        ("a.parquet", "nonsense", r"a\.parquet: is not a parquet file"),
        ("a.xlsx", "", r"a\.xlsx: unknown kind of file '\.xlsx'; allowed: \.jsonl, \.csv"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(BadFile, match=message):
        read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"text,label\nx,1\n\nna\xefve,2\nz,3\n"),
        ("a.jsonl", b'{"text": "x"}\n\n{"text": "na\xefve"}\n{"text": "z"}\n'),
    ],
)
def test_a_row_that_is_not_utf_8_stops_no_other(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadFile, match=rf"{name}, row 2: is not UTF-8"):
        read_table(tmp_path / name)
    (one, good), (two, bad), (three, fine) = iterate_rows(tmp_path / name)
    assert (one["text"], three["text"], good, fine) == ("x", "z", None, None)
    assert bad.startswith("is not UTF-8")
    assert "na\ufffdve" in next(iter(two.values()))


def test_a_header_that_is_not_utf_8(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"text,gr\xf6\xdfe\ngood,1\n")
    with pytest.raises(BadFile, match="its header is not UTF-8"):
        read_table(tmp_path / "a.csv")


@pytest.mark.parametrize("after", ['3,fine\n4,"two\nlines"\n', '3,"fine"\n4,"two\nlines"\n'])
def test_a_quote_that_never_closes_costs_its_own_line_alone(tmp_path, after):
    (tmp_path / "a.csv").write_text('id,text\n1,good\n2,"never closed\n' + after)
    (_, good), (row, problem), *others = iterate_rows(tmp_path / "a.csv")
    assert good is None
    assert row == {"line": '2,"never closed'}
    assert problem.startswith("is not well-formed")
    assert others == [({"id": "3", "text": "fine"}, None), ({"id": "4", "text": "two\nlines"}, None)]


def test_fields_without_a_name_are_kept_beside_a_column_called_extra(tmp_path):
    (tmp_path / "a.csv").write_text("id,extra\n1,d,e,f\n")
    ((row, problem),) = iterate_rows(tmp_path / "a.csv")
    assert row == {"id": "1", "extra": "d", "_extra": ["e", "f"]}
    assert problem == "has 4 fields, and the header 2"


def test_a_byte_that_is_no_text_is_named(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"caf\xe9\n")
    with (tmp_path / "a.txt").open(encoding="utf-8", errors="surrogateescape") as lines:
        assert list(iterate_lines(lines)) == [({"text": "caf\ufffd"}, "is not UTF-8: byte 0xe9 at letter 4")]


def test_missing_files_and_columns(tmp_path):
    with pytest.raises(BadFile, match="no such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(BadFile, match=r"row 1, column 'sentence': no such column; there are: text, label"):
        check_columns(tmp_path / "a.csv", ROWS, ["sentence"])
    with pytest.raises(BadFile, match=r"row 2, column 'label': is empty"):
        check_columns(tmp_path / "a.csv", [ROWS[0], {"text": "x", "label": ""}], ["text", "label"])
    with pytest.raises(BadFile, match="has no rows"):
        check_columns(tmp_path / "a.csv", [], ["text"])


def test_lines_are_unpacked(tmp_path):
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(b"one\n\n two \n"))
    assert list(read_lines(tmp_path / "a.txt.xz")) == ["one", "two"]
    (tmp_path / "b.txt.xz").write_bytes(b"not packed")
    with pytest.raises(BadFile, match="cannot be read as text"):
        list(read_lines(tmp_path / "b.txt.xz"))


def test_a_format_that_nobody_knows_is_refused(tmp_path):
    for use in (format_of, header_of, read_table):
        (tmp_path / "a.xlsx").touch()
        with pytest.raises(ValueError, match=r"unknown kind of file '.xlsx'; allowed: .jsonl, .csv, .tsv, .parquet"):
            use(tmp_path / "a.xlsx")
