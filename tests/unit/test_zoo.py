"""Shipped models are found by their name, and only by that."""

import json

import pytest
from typer.testing import CliRunner

import datamux
from conftest import tiny_encoder
from datamux import zoo
from datamux.cli import app

CARD = {"what": "nothing in particular", "metric": "accuracy", "num_instances": 3, "scores": {"1": 0.5, "3": 0.25}}


@pytest.fixture
def shipped(tmp_path, monkeypatch, tokenizer):
    """A zoo of one model, "toy"."""
    home = tmp_path / "zoo"
    datamux.multiplex(tiny_encoder(), 3).save_pretrained(home / "toy")
    tokenizer.save_pretrained(home / "toy")
    (home / "toy/card.json").write_text(json.dumps(CARD))
    monkeypatch.setattr(zoo, "HOME", home)
    monkeypatch.chdir(tmp_path)
    return home


def test_a_shipped_model_loads_by_its_name(shipped):
    predictor = datamux.load("toy")
    assert predictor.num_instances == 3
    assert predictor(["good film", "bad film"])[0].keys() == {"label", "score"}


def test_other_names_stay_as_they_are(shipped, tmp_path):
    assert zoo.find_model("toy") == str(shipped / "toy")
    assert zoo.find_model("somebody/toy") == "somebody/toy"
    assert zoo.find_model("unknown") == "unknown"
    (tmp_path / "toy").mkdir()
    assert zoo.find_model("toy") == str(shipped / "toy"), "any folder of that name is in nobody's way"
    (tmp_path / "toy/config.json").write_text("{}")
    assert zoo.find_model("toy") == "toy", "a model of that name in the working directory wins"


def test_they_are_listed_with_their_scores(shipped):
    table = CliRunner().invoke(app, ["ls", "models"], env={"COLUMNS": "200"}).stdout
    for shown in ("toy", "1 to 3", "accuracy: 50.0 at 1, 25.0 at 3"):
        assert shown in table
    (row,) = json.loads(CliRunner().invoke(app, ["ls", "models", "--json"]).stdout)
    assert row == {"name": "toy", **CARD}


def test_none_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "HOME", tmp_path)
    assert CliRunner().invoke(app, ["ls", "models"]).stdout == "no models\n"


def test_a_mistyped_name_is_met_with_the_nearest(shipped):
    with pytest.raises(FileNotFoundError, match=r"toyy; did you mean 'toy'\? \(in the package: toy\)"):
        datamux.load("toyy")
    with pytest.raises(FileNotFoundError) as found:
        datamux.load("somebody/toyy")
    assert "in the package" not in str(found.value)


def test_a_folder_without_a_model_is_said_to_be_one(shipped, tmp_path):
    (tmp_path / "run/task/model").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"run holds no model: it has no config\.json$"):
        datamux.load("run")
    (tmp_path / "run/task/model/config.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"there is one in run/task/model"):
        datamux.load("run")


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
def test_a_device_that_cannot_be_used_is_named(shipped, device):
    with pytest.raises(ValueError, match=f"device '{device}' cannot be used"):
        datamux.load("toy", device=device)
