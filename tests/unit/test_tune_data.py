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
