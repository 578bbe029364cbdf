"""`datamux predict`: every row once, in order, whatever the format, and after any interruption."""

import io
import json
import subprocess
import sys

import pytest
from predicting import TEXTS, rows_of, write
from typer.testing import CliRunner

import datamux
from datamux.cli import app
from datamux.inference.files import STDIN, predict_file
from datamux.tasks.files import BadFile, read_table
from datamux.tasks.formats import FORMATS, json_lines
from datamux.tasks.formats.base import Format
from datamux.tasks.formats.delimited import delimited_by
from datamux.zoo.sentences import NEWS


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv", ".parquet", ".txt"])
@pytest.mark.parametrize("to", [".jsonl", ".csv", ".parquet"])
def test_formats(predictor, tmp_path, suffix, to):
    rows = [{"id": str(i), "text": text, "label": "gold"} for i, text in enumerate(TEXTS)]
    rows = [{"text": row["text"]} for row in rows] if suffix == ".txt" else rows
    source, output = write(tmp_path / f"in{suffix}", rows), tmp_path / f"out{to}"
    done = predict_file(predictor, source, output, group_size=2)
    assert (done.rows, done.bad) == (len(TEXTS), 0)
    expected = [answer["label"] for answer in predictor(TEXTS, group_size=2)]
    found = rows_of(output)
    assert [row["predicted_label"] for row in found] == expected
    kept = [{name: row[name] for name in rows[0]} for row in found]
    assert kept == rows, "all other columns, and the order, are kept"
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["model", source.name, output.name])


def test_a_format_is_added_by_one_entry_in_the_table(predictor, tmp_path, monkeypatch):
    """As docs/architecture.md says. One new format has a header, the rows of the other name their own columns."""
    added = {".bars": delimited_by("|"), ".ndjson": Format(json_lines.read, json_lines.write, by_lines=True)}
    for suffix, kind in added.items():
        monkeypatch.setitem(FORMATS, suffix, kind)
    (tmp_path / "in.bars").write_text("id|review\n1|a good film\n2|a bad film\n")
    (tmp_path / "in.ndjson").write_text('{"id": "1", "review": "a good film"}\n{"id": "2", "review": "a bad film"}\n')
    for suffix in added:
        source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
        command = ["predict", str(tmp_path / "model"), str(source), "-o", str(output), "--quiet", "--text", "review"]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        found = read_table(output)
        assert [row["review"] for row in found] == ["a good film", "a bad film"]
        assert [row["predicted_label"] for row in found] == [
            answer["label"] for answer in predictor(["a good film", "a bad film"])
        ]
    with pytest.raises(BadFile, match="no such column; there are: id, review; choose one with --text"):
        predict_file(predictor, tmp_path / "in.bars", tmp_path / "other.csv")
    (tmp_path / "none.bars").write_text("id|review\n")
    predict_file(predictor, tmp_path / "none.bars", tmp_path / "none.csv", text=["review"])
    assert (tmp_path / "none.csv").read_text() == "id,review,predicted_label,predicted_score\n"


@pytest.mark.parametrize("as_words", [False, True])
@pytest.mark.parametrize("to", [".jsonl", ".csv", ".parquet"])
def test_spans_in_a_file_are_what_the_tagger_said(tmp_path, to, as_words):
    texts = ["nothing to see here .", *NEWS[:5]]
    given = [text.split() for text in texts] if as_words else texts
    source = write(tmp_path / "in.jsonl", [{"id": str(i), "text": text} for i, text in enumerate(given)])
    output = tmp_path / f"out{to}"
    command = ["predict", "ner", str(source), "-o", str(output), "--group-size", "3", "--quiet"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    found = rows_of(output)
    spans = [json.loads(row["predicted_spans"]) if to == ".csv" else row["predicted_spans"] for row in found]
    assert spans == datamux.load("ner")(given, group_size=3)
    assert spans[0] == []
    assert sum(map(len, spans)) > 5
    for text, row in zip(texts, spans, strict=True):
        assert [span["word"] for span in row] == [text[span["start"] : span["end"]] for span in row]
    assert [row["id"] for row in found] == [str(i) for i in range(len(texts))]
    assert [json.loads(row["text"]) if to == ".csv" and as_words else row["text"] for row in found] == given


def test_stdin(predictor, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(TEXTS)))
    predict_file(predictor, STDIN, tmp_path / "out.jsonl")
    assert [row["text"] for row in rows_of(tmp_path / "out.jsonl")] == TEXTS


def test_stdin_through_a_pipe(predictor, tmp_path):
    command = [sys.executable, "-m", "datamux.cli", "predict", tmp_path / "model", "-", "-o", tmp_path / "out.csv"]
    given = "good film\n\nbad \xe9\n".encode()
    done = subprocess.run([*command, "--quiet"], input=given, capture_output=True, timeout=200, check=True)
    assert [row["text"] for row in rows_of(tmp_path / "out.csv")] == ["good film", "bad \xe9"]
    assert "row 2: column 'text' is empty" in done.stderr.decode()


def test_bad_rows_are_named_and_the_rest_goes_on(predictor, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "good"}\nnot json\n{"text": ""}\n{"text": 3}\n[1]\n{"text": "bad"}\n{"other": 1}\n')
    with source.open("a") as lines:
        lines.write('{"text": ["two", "words"]}\n{"text": "\\ud83d"}\n')
    done = predict_file(predictor, source, tmp_path / "out.jsonl")
    assert (done.rows, done.bad) == (2, 7)
    assert [row["text"] for row in rows_of(tmp_path / "out.jsonl")] == ["good", "bad"]
    errors = [json.loads(line) for line in (tmp_path / "out.jsonl.errors.jsonl").read_text().splitlines()]
    assert [error["row_number"] for error in errors] == [2, 3, 4, 5, 7, 8, 9]
    broken = tmp_path / "in.csv"
    broken.write_text("id,text\n1,good\n2\n3,bad,more\n4,film\n")
    assert predict_file(predictor, broken, tmp_path / "out.csv").bad == 2
    with pytest.raises(ValueError, match=r"no such column; there are: id, text"):
        predict_file(predictor, broken, tmp_path / "other.csv", text=["body"])


@pytest.mark.parametrize("output", ["in.csv", "../{}/in.csv", "link.csv"])
def test_the_input_is_not_written_over(predictor, tmp_path, output):
    source = write(tmp_path / "in.csv", [{"text": "good film"}])
    (tmp_path / "link.csv").symlink_to(source)
    with pytest.raises(ValueError, match="written over"):
        predict_file(predictor, source, tmp_path / output.format(tmp_path.name))
    assert rows_of(source) == [{"text": "good film"}]


def test_the_errors_of_a_run_can_be_its_next_input_elsewhere(predictor, tmp_path):
    errors = write(tmp_path / "out.csv.errors.jsonl", [{"text": "good film"}])
    with pytest.raises(ValueError, match="written over"):
        predict_file(predictor, errors, tmp_path / "out.csv")
    assert predict_file(predictor, errors, tmp_path / "again.csv").rows == 1


@pytest.mark.parametrize(("source", "output"), [("in.csv", "out.parquet"), ("in.parquet", "out.csv")])
def test_missing_pyarrow_is_noticed_before_the_first_answer(predictor, tmp_path, monkeypatch, source, output):
    given = write(tmp_path / source, [{"text": "good film"}])
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(predictor.runtime, "logits", None)
    with pytest.raises(ModuleNotFoundError, match=r"datamux\[train\]"):
        predict_file(predictor, given, tmp_path / output)
    assert not (tmp_path / f"{output}.part").exists()


def test_blank_texts_are_bad(predictor, tmp_path):
    source = write(tmp_path / "in.jsonl", [{"text": text} for text in ("good", " ", "\t\n", "\u00a0", "bad")])
    done = predict_file(predictor, source, tmp_path / "out.jsonl")
    assert (done.rows, done.bad) == (2, 3)


def test_parquet_takes_columns_of_several_kinds_as_text(predictor, tmp_path, caplog):
    several = [["a", 1, {"x": 1}, 2**70, {}], [["b"], "1", {"x": "y"}, 1, {}], [None, 2.5, None, None, {}]]
    names = ("lists", "numbers", "dicts", "large", "nothing")
    rows = [{"text": "good", "id": i, **dict(zip(names, row, strict=True))} for i, row in enumerate(several)]
    predict_file(predictor, write(tmp_path / "in.jsonl", rows), tmp_path / "out.parquet")
    found = rows_of(tmp_path / "out.parquet")
    assert [row["lists"] for row in found] == ["a", '["b"]', None]
    assert [row["numbers"] for row in found] == ["1", "1", "2.5"]
    assert [row["dicts"] for row in found] == ['{"x": 1}', '{"x": "y"}', None]
    assert [row["large"] for row in found] == [str(2**70), "1", None]
    assert [row["id"] for row in found] == [0, 1, 2]
    for name in names:
        assert f"column '{name}'" in caplog.text
    assert "'id'" not in caplog.text


@pytest.mark.parametrize("to", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_every_line_break_in_a_cell_is_kept(predictor, tmp_path, to):
    notes = ["one\rtwo", "one\ntwo", "one\r\ntwo", 'a "b"', "\r", " "]
    source = write(tmp_path / "in.jsonl", [{"id": i, "note": note, "text": "good"} for i, note in enumerate(notes)])
    predict_file(predictor, source, tmp_path / f"out{to}")
    assert [row["note"] for row in rows_of(tmp_path / f"out{to}")] == notes
    if to == ".csv":
        assert (tmp_path / "out.csv").read_bytes().startswith(b"id,note,text,predicted_label,predicted_score\n0,")


@pytest.mark.parametrize("to", [".csv", ".parquet"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_are_there_even_if_no_row_is(predictor, tmp_path, suffix, to):
    import pyarrow.csv
    import pyarrow.parquet

    source = write(tmp_path / f"in{suffix}", [{"id": 1, "text": " "}])
    assert predict_file(predictor, source, tmp_path / f"out{to}").rows == 0
    read = pyarrow.csv.read_csv if to == ".csv" else pyarrow.parquet.read_table
    assert read(tmp_path / f"out{to}").column_names == ["id", "text", "predicted_label", "predicted_score"]


def test_own_columns_of_a_parquet_file_keep_their_types(predictor, tmp_path, caplog):
    import pyarrow
    import pyarrow.parquet

    when = pyarrow.array([0, 1], pyarrow.timestamp("us"))
    pairs = pyarrow.array([[("a", 1)], []], pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    table = pyarrow.table({"predicted_at": when, "text": ["good", "bad"], "pairs": pairs})
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    predict_file(predictor, tmp_path / "in.parquet", tmp_path / "out.parquet")
    found = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert found.select(table.column_names).equals(table)
    assert not caplog.text


def test_a_first_row_without_the_text_is_a_bad_row(predictor, tmp_path):
    source = write(tmp_path / "in.jsonl", [{"id": 1}, {"id": 2, "text": "good"}])
    done = predict_file(predictor, source, tmp_path / "out.jsonl")
    assert (done.rows, done.bad) == (1, 1)


def test_too_many_columns_are_said_at_once(predictor, tmp_path):
    source = write(tmp_path / "in.csv", [{"a": "x", "b": "y", "c": "z"}])
    with pytest.raises(ValueError, match=r"one column or a pair of texts, got 3: a, b, c"):
        predict_file(predictor, source, tmp_path / "out.csv", text=["a", "b", "c"])
    assert not (tmp_path / "out.csv.part").exists()


def test_a_wrong_column_is_said_from_the_header_alone(predictor, tmp_path):
    (tmp_path / "in.csv").write_text("id,text\n")
    with pytest.raises(ValueError, match=r"in.csv, column 'body': no such column; there are: id, text; choose"):
        predict_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv", text=["body"])


def test_lists_and_dicts_are_json_in_csv(predictor, tmp_path):
    source = write(tmp_path / "in.jsonl", [{"text": "good", "list": ["é"], "dict": {"a": None}}])
    predict_file(predictor, source, tmp_path / "out.csv")
    (row,) = rows_of(tmp_path / "out.csv")
    assert json.loads(row["list"]) == ["é"]
    assert json.loads(row["dict"]) == {"a": None}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_answers_replace_no_column(predictor, tmp_path, suffix):
    old = write(tmp_path / f"old{suffix}", [{"text": text, "predicted_label": "old", "when": "3"} for text in TEXTS])
    with pytest.raises(ValueError, match=r"column 'predicted_label': is where an answer would go; .*--prefix"):
        predict_file(predictor, old, tmp_path / f"new{suffix}")
    assert not (tmp_path / f"new{suffix}.part").exists()
    predict_file(predictor, old, tmp_path / f"new{suffix}", prefix="other_")
    found = rows_of(tmp_path / f"new{suffix}")
    assert list(found[0]) == ["text", "predicted_label", "when", "other_label", "other_score"]
    assert {row["other_label"] for row in found} <= {"neg", "pos"}
    assert {(row["predicted_label"], row["when"]) for row in found} == {("old", "3")}


def test_nothing_answered_is_a_failure_to_a_script(predictor, tmp_path):
    write(tmp_path / "in.jsonl", [{"text": ""}, {"body": "good"}])
    command = [
        "predict",
        str(tmp_path / "model"),
        str(tmp_path / "in.jsonl"),
        "-o",
        str(tmp_path / "out.csv"),
        "--quiet",
    ]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    assert "row 1: column 'text' is empty\nrow 2: has no column 'text'\n2 bad rows" in done.stderr


def test_parquet_keeps_late_columns_and_may_be_empty(predictor, tmp_path):
    late = write(tmp_path / "late.jsonl", [{"text": "good"}, {"text": "bad", "late": 1}])
    predict_file(predictor, late, tmp_path / "late.parquet")
    assert [row["late"] for row in rows_of(tmp_path / "late.parquet")] == [None, 1]
    empty = write(tmp_path / "empty.parquet", [{"text": ""}])
    assert predict_file(predictor, empty, tmp_path / "none.parquet").bad == 1
    assert rows_of(tmp_path / "none.parquet") == []


@pytest.mark.parametrize("columns", [["text"], ["text", "other"]])
def test_the_bar_ends_where_it_said(predictor, tmp_path, monkeypatch, columns):
    class Bar:
        total, done = 0, 0

        def __init__(self, **options):
            bars.append(self)

        def update(self, tokens):
            totals.append(self.total)
            self.done += tokens

        def close(self):
            pass

    bars, totals = [], []
    monkeypatch.setattr("datamux.inference.predictor.tqdm", Bar)
    monkeypatch.setattr("datamux.inference.predictor.WINDOW", 8)
    monkeypatch.setattr("datamux.inference.predictor.GROUPS", 1)
    source = write(tmp_path / "in.jsonl", [{"text": "good film", "other": "bad plot"}] * 24)
    predict_file(predictor, source, tmp_path / "out.jsonl", text=columns, progress=True)
    assert set(totals) == {bars[0].done}, "with texts that are all alike, the first window knows how many there will be"


def test_rows_with_the_same_text_all_get_its_answer(predictor, tmp_path, monkeypatch):
    source = write(tmp_path / "in.csv", [{"id": str(i), "text": TEXTS[i % 3]} for i in range(20)])
    run, rows = predictor.runtime.logits, []

    def logits(batch, group_size):
        rows.append(len(batch["input_ids"]))
        return run(batch, group_size)

    monkeypatch.setattr(predictor.runtime, "logits", logits)
    assert predict_file(predictor, source, tmp_path / "out.csv").rows == 20
    assert rows == [3]
    expected, found = predictor(TEXTS[:3]), rows_of(tmp_path / "out.csv")
    assert [row["id"] for row in found] == [str(i) for i in range(20)]
    wanted = [expected[i % 3] for i in range(20)]
    assert [row["predicted_label"] for row in found] == [answer["label"] for answer in wanted]
    assert [float(row["predicted_score"]) for row in found] == pytest.approx([answer["score"] for answer in wanted])
