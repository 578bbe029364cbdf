"""The three parts of the user's rows, and what is said about bad ones."""

import json

import pytest

from conftest import write_jsonl
from datamux.tasks.files import BadFile
from datamux.tasks.task import load_split
from datamux.tuning.data import prepare
from datamux.tuning.settings import Settings


def rows(count, start=0):
    return [{"text": f"text number {row}", "label": "yes" if row % 3 else "no"} for row in range(start, start + count)]


def prepared(tmp_path, given, **more):
    return prepare(Settings(out=tmp_path, train=write_jsonl(tmp_path, "train.jsonl", given), **more), tmp_path / "rows")


def texts(examples):
    return set(examples.texts)


def test_no_row_is_in_two_parts(tmp_path):
    data = prepared(tmp_path, rows(300))
    learn, stop = (load_split(data.task, split) for split in ("train", "validation"))
    assert texts(data.train) == texts(learn)
    assert not texts(learn) & texts(stop)
    assert not (texts(learn) | texts(stop)) & texts(data.choice)
    assert len(learn) + len(stop) + len(data.choice) == 300
    assert 30 <= len(data.choice) <= 60
    for part in (learn, stop, data.choice):
        assert 0.2 < list(part.labels).count("no") / len(part) < 0.47, "every part has both labels"
    again = prepared(tmp_path / "again", rows(300))
    assert list(again.choice.texts) == list(data.choice.texts)


def test_a_validation_file_chooses(tmp_path):
    validation = write_jsonl(tmp_path, "v.jsonl", rows(50, start=1000))
    test = write_jsonl(tmp_path, "test.jsonl", rows(20, start=2000))
    data = prepared(tmp_path, rows(100), validation=validation, test=test)
    assert len(data.choice) == 50
    assert data.test is not None
    assert len(data.test) == 20
    assert data.notes == []


def test_copies_across_files_are_reported(tmp_path):
    data = prepared(tmp_path, rows(100), validation=write_jsonl(tmp_path, "v.jsonl", rows(40, start=80)))
    (note,) = data.notes
    assert note.startswith("warning: 20 of the 40 validation rows have texts that are also in the training rows")


def test_copies_within_a_file_never_choose(tmp_path):
    data = prepared(tmp_path, rows(100) + rows(50))
    assert not texts(data.choice) & texts(data.train)


def test_many_rows_are_sampled(tmp_path):
    data = prepared(tmp_path, rows(500), max_rows=200)
    assert data.notes[0] == "200 of the 500 rows were drawn at random for the search (--max-rows)"
    assert len(data.train) + len(data.choice) <= 200


def test_one_class_is_nothing_to_learn(tmp_path):
    with pytest.raises(BadFile, match="all rows have the label 'yes'; there is nothing to learn"):
        prepared(tmp_path, [{"text": f"text {row}", "label": "yes"} for row in range(30)])


def test_a_label_with_one_row_stays_with_the_rows_to_learn_from(tmp_path):
    data = prepared(tmp_path, [*rows(100), {"text": "a rare text", "label": "rare"}])
    assert "a rare text" in texts(data.train)
    assert data.notes[0].startswith("1 labels have only one row (rare)")


@pytest.mark.parametrize(
    ("bad", "message"),
    [({"text": "", "label": "yes"}, "row 101, column 'text': is empty"), ({"label": "yes"}, "no such column")],
)
def test_bad_rows_are_named(tmp_path, bad, message):
    with pytest.raises(BadFile, match=message):
        prepared(tmp_path, [*rows(100), bad])


def test_too_few_rows(tmp_path):
    with pytest.raises(BadFile, match="tuning needs at least 20"):
        prepared(tmp_path, rows(12))


def test_labels_are_written_by_name(tmp_path):
    prepared(tmp_path, [{"text": f"text {row}", "label": row % 2} for row in range(60)])
    lines = [json.loads(line) for line in (tmp_path / "rows" / "train.jsonl").read_text().splitlines()]
    assert {line["label"] for line in lines} == {"0", "1"}
    numbers = prepared(tmp_path / "n", [{"text": f"text {row}", "label": row / 7} for row in range(60)])
    assert numbers.labels.problem == "regression"
    several = prepared(tmp_path / "s", [{"text": f"text {row}", "label": ["a", "b"][: row % 3]} for row in range(60)])
    assert several.labels.problem == "multi_label_classification"
    assert len(load_split(several.task, "train")) == len(several.train)


def as_csv(tmp_path, given):
    tmp_path.mkdir(parents=True, exist_ok=True)
    lines = [",".join(str(row[column]) for column in ("text", "label")) for row in given]
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *lines]))
    return prepare(Settings(out=tmp_path, train=tmp_path / "train.csv"), tmp_path / "rows")


def test_numbers_in_a_csv(tmp_path):
    """A csv has only strings, so every number looks like a label of its own."""
    data = as_csv(tmp_path, [{"text": f"text {row}", "label": row / 7} for row in range(60)])
    assert data.labels.problem == "regression"
    assert len(data.choice) > 2
    assert all(isinstance(label, float) for label in data.choice.labels)


def test_a_file_that_is_sorted_by_label(tmp_path):
    """What takes the first rows of a part takes rows of every label."""
    data = as_csv(tmp_path, sorted(rows(300), key=lambda row: row["label"]))
    for part in (data.train, data.choice, load_split(data.task, "train"), load_split(data.task, "validation")):
        assert set(part.first(20).labels) == {"yes", "no"}


def test_secret_labels_are_as_if_there_were_no_rows(tmp_path):
    secret = [row | {"label": -1} for row in rows(30, start=2000)]
    data = prepared(tmp_path, rows(100), test=write_jsonl(tmp_path, "test.jsonl", secret))
    assert data.test is None
    assert any(note.startswith("the test rows were left out: all their labels are -1") for note in data.notes)
    known = [row | {"label": row["label"] == "yes"} for row in rows(30, start=2000)]
    with pytest.raises(BadFile, match="is not one of no, yes"):
        prepared(tmp_path / "b", rows(100), test=write_jsonl(tmp_path, "other.jsonl", known))


def test_the_same_text_is_never_in_two_parts(tmp_path):
    data = prepared(tmp_path, [row | {"text": row["text"][:-1]} for row in rows(600)])
    learn, stop = (load_split(data.task, split) for split in ("train", "validation"))
    assert len(learn) + len(stop) + len(data.choice) == 600
    assert len(stop) > 10
    assert not texts(learn) & texts(stop)
    assert not (texts(learn) | texts(stop)) & texts(data.choice)


def test_copies_of_what_chooses_are_reported(tmp_path):
    test = write_jsonl(tmp_path, "test.jsonl", rows(100))
    unlabelled = write_jsonl(tmp_path, "more.jsonl", [{"text": row["text"]} for row in rows(100)])
    data = prepared(tmp_path, rows(100), test=test, unlabelled=unlabelled)
    held = len(data.choice)
    assert f"warning: {held} of the 100 test rows have texts that are also in the held-out rows" in " ".join(data.notes)
    assert any(note.startswith(f"warning: {held} of the {held} rows that choose have texts") for note in data.notes)
    assert any(note.startswith("warning: 100 of the 100 rows to test with have texts") for note in data.notes)
    stop = len(load_split(data.task, "validation"))
    said = f"warning: {stop} of the {stop} rows that stop the trainings have texts that are also in the unlabelled file"
    assert any(note.startswith(said) for note in data.notes)


def test_a_pair_in_the_other_order_is_the_same_pair(tmp_path):
    """It is in the same part; and across two files it counts as a copy."""
    pairs = [{"a": f"question {row}", "b": f"another {row}", "label": "yes" if row % 3 else "no"} for row in range(200)]
    turned = [row | {"a": row["b"], "b": row["a"]} for row in pairs]
    both = write_jsonl(tmp_path, "both.jsonl", pairs + turned)
    data = prepare(Settings(out=tmp_path, train=both, text=("a", "b")), tmp_path / "rows")
    parts = [data.train, data.choice, load_split(data.task, "validation")]
    sets = [{frozenset(pair) for pair in zip(part.texts, part.pairs, strict=True)} for part in parts]
    assert all(len(part) == 2 * len(found) for part, found in zip(parts, sets, strict=True))
    assert not sets[0] & sets[1] | sets[0] & sets[2] | sets[1] & sets[2]
    files = {"train": write_jsonl(tmp_path, "one.jsonl", pairs), "validation": write_jsonl(tmp_path, "o.jsonl", turned)}
    (note,) = prepare(Settings(out=tmp_path, text=("a", "b"), **files), tmp_path / "more").notes
    assert note.startswith("warning: 200 of the 200 validation rows have texts that are also in the training rows")


def test_a_bad_unlabelled_file_is_named_before_anything_is_trained(tmp_path):
    with pytest.raises(BadFile, match="no such column"):
        prepared(tmp_path, rows(100), unlabelled=write_jsonl(tmp_path, "more.jsonl", [{"words": "a text"}]))
