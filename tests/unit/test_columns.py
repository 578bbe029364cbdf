"""What a column of labels, texts or words is taken for, and what is refused."""

import pytest

from conftest import write_jsonl
from datamux.tasks.files import BadFile
from datamux.tasks.labels import Labels, find_labels, find_tags
from datamux.tasks.rows import encode_examples
from datamux.tasks.task import (
    load_split,
    load_splits,
    task_from_files,
)
from datamux.train.data import task_examples


@pytest.mark.parametrize(
    ("values", "names", "problem"),
    [
        (["b", "a", "b"], ("a", "b"), "single_label_classification"),
        ([1, 0, 2], ("0", "1", "2"), "single_label_classification"),
        (["1", "0"], ("0", "1"), "single_label_classification"),
        ([0.5, 1.0], ("score",), "regression"),
        ([["x"], ["y", "x"], []], ("x", "y"), "multi_label_classification"),
        ([[1], [1.0, "02"], [10]], ("1", "2", "10"), "multi_label_classification"),
        ([[1, "x"], [1.0]], ("1", "x"), "multi_label_classification"),
        (["1_1", "11", "1_2"], ("11", "1_1", "1_2"), "single_label_classification"),
        (["1e5", "100000"], ("100000", "1e5"), "single_label_classification"),
        ([2**60 + 1, str(2**60 + 2)], (str(2**60 + 1), str(2**60 + 2)), "single_label_classification"),
        (["1e-3", "0.5"], ("score",), "regression"),
    ],
)
def test_labels_are_found(values, names, problem):
    assert find_labels(values) == Labels(names, problem)


def test_labels_are_encoded():
    assert [find_labels(["b", "a"]).encode(v) for v in ("a", "b")] == [0, 1]
    assert find_labels([1, 0], ("no", "yes")).encode(1) == 1
    assert find_labels([1.0, 2.0]).encode("2") == 1
    assert find_labels(["01", "2"]).encode("01") == 0
    assert find_labels(["1", "inf"]).names == ("1", "inf")
    with pytest.raises(ValueError, match="label 1 is not one of 0, 2"):
        find_labels([0, 2]).encode(1)  # a name, not a number of one
    with pytest.raises(ValueError, match="'high' is not a number"):
        find_labels([0.5]).encode("high")
    assert find_labels([["x"], ["y", "x"]]).encode(["y"]) == [0.0, 1.0]
    assert find_labels([0.5]).encode("0.25") == 0.25
    with pytest.raises(ValueError, match="label 'c' is not one of a, b"):
        find_labels(["b", "a"]).encode("c")
    assert find_tags([["B-PER", "O"], ["I-PER"]]).names == ("O", "B-PER", "I-PER")


def test_a_bad_label_is_named_with_its_row(tmp_path, tokenizer):
    file = write_jsonl(tmp_path, "v.jsonl", [{"text": "x", "label": "a"}, {"text": "y", "label": "c"}])
    examples = load_split(task_from_files({"train": file}, ["text"], "label"), "train")
    with pytest.raises(BadFile, match=r"v\.jsonl, row 2, column 'label': label 'c' is not one of a, b"):
        encode_examples(examples, Labels(("a", "b")), tokenizer, 8)


def test_a_bad_label_is_named_with_its_own_file_and_row(tmp_path, tokenizer):
    good = write_jsonl(tmp_path, "v.jsonl", [{"text": "x", "label": "a"}] * 2)
    bad = write_jsonl(tmp_path, "t.jsonl", [{"text": "x", "label": "a"}] * 14 + [{"text": "y", "label": "c"}])
    task = task_from_files({"validation": good, "train": bad}, ["text"], "label")
    expected = r"t\.jsonl, row 15, column 'label': label 'c' is not one of a, b"
    with pytest.raises(BadFile, match=expected):
        encode_examples(load_splits(task, ["validation", "train"]), Labels(("a", "b")), tokenizer, 8)
    kept = load_split(task, "train").only([1, 3, 14])
    with pytest.raises(BadFile, match=expected):
        encode_examples(kept, Labels(("a", "b")), tokenizer, 8)


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (["p"], "neg", "'neg' is not a list, unlike row 1"),
        (["p"], 3, "3 is not a list, unlike row 1"),
        ("p", ["p", "q"], r"\['p', 'q'\] is a list, unlike row 1"),
        ("p", {"p": 1}, r"\{'p': 1\} is not a label"),
        (["p"], [None], r"\[None\] is not a label"),
    ],
)
def test_labels_of_different_kinds_are_refused(tmp_path, first, second, problem):
    file = write_jsonl(tmp_path, "k.jsonl", [{"text": "x", "label": first}, {"text": "y", "label": second}])
    with pytest.raises(BadFile, match=rf"k\.jsonl, row 2, column 'label': {problem}"):
        load_split(task_from_files({"train": file}, ["text"], "label"), "train")


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("tokens", 3, "3 is not a list of words"),
        ("tokens", ["a", None], r"\['a', None\] is not a list of words"),
        ("tokens", [], r"\[\] is not a list of words"),
        ("tokens", [" "], r"\[' '\] is not a list of words"),
        ("tokens", [["a"]], "is not a list of words"),
        ("tags", 3, "3 is not a list of tags"),
        ("tags", [["O"]], "is not a list of tags"),
        ("tags", [""], "is not a list of tags"),
        ("tags", [float("nan")], r"\[nan\] is not a list of tags"),
    ],
)
def test_what_is_no_list_of_words_is_refused(tmp_path, column, value, problem):
    row = {"tokens": ["a"], "tags": ["O"]}
    file = write_jsonl(tmp_path, "w.jsonl", [row, row | {column: value}])
    with pytest.raises(BadFile, match=rf"w\.jsonl, row 2, column '{column}': .*{problem}"):
        load_split(task_from_files({"train": file}, ["tokens"], "tags"), "train")


@pytest.mark.parametrize("value", [["a", "b"], {"a": 1}, 3, "  "])
@pytest.mark.parametrize("column", ["a", "b"])
def test_what_is_no_text_is_refused(tmp_path, column, value):
    row = {"a": "x", "b": "y", "label": "p"}
    file = write_jsonl(tmp_path, "t.jsonl", [row, row | {column: value}])
    with pytest.raises(BadFile, match=rf"t\.jsonl, row 2, column '{column}': .* is not a text"):
        load_split(task_from_files({"train": file}, ["a", "b"], "label"), "train")


def test_bytes_are_no_text(tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist([{"text": b"x", "label": "p"}])
    pyarrow.parquet.write_table(table, tmp_path / "b.parquet")
    with pytest.raises(BadFile, match=r"row 1, column 'text': b'x' is not a text"):
        load_split(task_from_files({"train": tmp_path / "b.parquet"}, ["text"], "label"), "train")


def test_tagging_takes_one_column_of_words(tmp_path):
    file = write_jsonl(tmp_path, "w.jsonl", [{"tokens": ["a"], "more": ["b"], "tags": ["O"]}])
    with pytest.raises(ValueError, match="tagging takes one column of words, got 2: tokens, more"):
        task_from_files({"train": file}, ["tokens", "more"], "tags")


def test_several_labels_in_a_csv(tmp_path):
    (tmp_path / "s.csv").write_text('text,label\nx,"[""a"", ""b""]"\ny,[]\n')
    task = task_from_files({"train": tmp_path / "s.csv"}, ["text"], "label")
    examples = load_split(task, "train")
    assert examples.labels == [["a", "b"], []]
    assert find_labels(examples.labels).problem == "multi_label_classification"


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ("y", r"row 2, column 'label': 'y' is not a list, unlike row 1"),
        ('"[x, y]"', r"row 2, column 'label': \[x, y\] is not a list; write lists as"),
        ('"[""x"", ""x""]"', r"row 2, column 'label': .* has a label twice; if these are tags"),
        ("nan", r"row 2, column 'label': 'nan' is not a"),
    ],
)
def test_what_is_no_list_of_labels_is_refused(tmp_path, second, problem):
    (tmp_path / "l.csv").write_text(f'text,label\na,"[""x""]"\nb,{second}\n')
    with pytest.raises(BadFile, match=rf"l\.csv, {problem}"):
        load_split(task_from_files({"train": tmp_path / "l.csv"}, ["text"], "label"), "train")


def test_a_name_in_brackets_is_a_name(tmp_path):
    (tmp_path / "b.csv").write_text("text,label\na,spam\nb,[deleted]\nc,[x\n")
    examples = load_split(task_from_files({"train": tmp_path / "b.csv"}, ["text"], "label"), "train")
    assert examples.labels == ["spam", "[deleted]", "[x"]
    (tmp_path / "b.csv").write_text('text,label\na,"[x, y]"\nb,[z]\n')
    with pytest.raises(BadFile, match=r"row 1, column 'label': \[x, y\] is not a list; write lists as"):
        load_split(task_from_files({"train": tmp_path / "b.csv"}, ["text"], "label"), "train")


def test_lists_without_any_label_are_refused(tmp_path):
    file = write_jsonl(tmp_path, "e.jsonl", [{"text": "x", "label": []}] * 2)
    with pytest.raises(BadFile, match=r"e\.jsonl, column 'label': no row has a label"):
        load_split(task_from_files({"train": file}, ["text"], "label"), "train")


@pytest.mark.parametrize("value", ["nan", "NaN", float("nan")])
def test_nan_is_no_label(tmp_path, value):
    file = write_jsonl(tmp_path, "n.jsonl", [{"text": "x", "label": "a"}, {"text": "y", "label": value}])
    with pytest.raises(BadFile, match=r"n\.jsonl, row 2, column 'label': '?(nan|NaN)'? is not a label"):
        load_split(task_from_files({"train": file}, ["text"], "label"), "train")


@pytest.mark.parametrize(
    ("rows", "taken"),
    [
        ([{"x": "a b", "y": "p"}, {"x": "c d", "y": "q"}], "2 labels: p, q"),
        ([{"x": "a b", "y": ["p", "q"]}, {"x": "c d", "y": []}], "several of 2 labels: p, q"),
        ([{"x": ["a"], "y": ["O"]}, {"x": ["b"], "y": ["B-X"]}], "one tag per word, from 2 labels: O, B-X"),
        ([{"x": "a b", "y": 0.5}, {"x": "c d", "y": 1}], "numbers"),
    ],
)
def test_it_is_said_what_a_column_was_taken_for(tmp_path, caplog, rows, taken):
    file = write_jsonl(tmp_path, "c.jsonl", rows)
    with caplog.at_level("INFO"):
        task_examples(task_from_files({"train": file}, ["x"], "y"), None, 10)
    assert caplog.messages[0] == f"{file}, column 'y': {taken}"


def test_words_in_a_csv(tmp_path):
    (tmp_path / "w.csv").write_text("words,tags\nanna lives,B-PER O\n")
    examples = load_split(task_from_files({"train": tmp_path / "w.csv"}, ["words"], "tags", token_level=True), "train")
    assert (examples.texts, examples.labels) == ([["anna", "lives"]], [["B-PER", "O"]])
    with pytest.raises(ValueError, match="a text is one column, a pair two; got 3: a, b, c"):
        task_from_files({"train": tmp_path / "w.csv"}, ["a", "b", "c"], "tags")
