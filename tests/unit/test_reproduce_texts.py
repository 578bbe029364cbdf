"""Files of texts for experiments: a data set as a user's own file, whole or a part of it."""

import json

import pytest

from conftest import write_jsonl
from datamux.reproduce.catalogue import get_experiment
from datamux.reproduce.texts import make_texts
from datamux.tasks.files import read_table


def write(folder, name, rows):
    """The file of an experiment, from a data set of `rows` rows that is sorted by label."""
    (folder / "banking77").mkdir(parents=True)
    given = [{"text": f"text {row}", "label": f"label {row // 100}"} for row in range(rows)]
    write_jsonl(folder / "banking77", "train.jsonl", given)
    file = folder / "texts" / f"{name}.csv"
    make_texts(name, get_experiment(f"texts/{name}").settings, file, str(folder))
    return given, read_table(file)


def test_a_smaller_file_has_rows_from_all_over_the_data_set(tmp_path):
    given, found = write(tmp_path, "banking77-1000-train", 3000)
    assert len({row["text"] for row in found}) == 1000, "no row is drawn twice"
    assert all(row in given for row in found)
    counts = [sum(row["label"] == f"label {number}" for row in found) for number in range(30)]
    assert min(counts) > 15, "about a third of every label, not the first rows"
    assert found == write(tmp_path / "again", "banking77-1000-train", 3000)[1], "the same rows for everybody"


def test_a_whole_file_keeps_its_order(tmp_path):
    given, found = write(tmp_path, "banking77-train", 30)
    assert json.dumps(found) == json.dumps(given)


@pytest.mark.parametrize("name", ["banking77-1000-encoder-n10", "sst2-5000-encoder-plain"])
def test_models_of_a_smaller_file_are_scored_on_all_test_rows(name):
    data, rows, *_ = name.split("-")
    experiment = get_experiment(f"your-file/{name}")
    assert experiment.train_file == f"{{texts/{data}-{rows}-train}}"
    assert experiment.task == f"{{texts/{data}-test}}"
    assert get_experiment(f"texts/{data}-{rows}-train").settings["rows"] == int(rows)
