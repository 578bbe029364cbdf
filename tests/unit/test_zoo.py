"""Shipped models are found by their name, and only by that."""

import json
import socket
import time
from unittest.mock import Mock

import pytest
import torch
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import RepositoryNotFoundError
from typer.testing import CliRunner

import datamux
from conftest import tiny_encoder
from datamux import zoo
from datamux.cli import app
from datamux.hub import loading
from datamux.hub.loading import load_config, load_encoder, load_tokenizer, named

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
    assert zoo.find_model("toy/") == str(shipped / "toy"), "a shell completes the name of a folder with a slash"
    assert zoo.find_model("/") == "/"
    (tmp_path / "toy").mkdir()
    assert zoo.find_model("toy") == str(shipped / "toy"), "any folder of that name is in nobody's way"
    (tmp_path / "toy/config.json").write_text("{}")
    assert zoo.find_model("toy") == "toy", "a model of that name in the working directory wins"


def test_an_installed_encoder_is_found_by_its_name_on_the_hub_too(shipped, tmp_path, monkeypatch):
    package = tmp_path / "site" / "a_package"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('its code is never run')")
    monkeypatch.setattr(zoo, "INSTALLABLE", {"tiny": ("a_package", "model", "somebody/tiny")})
    assert zoo.find_model("tiny") == zoo.find_model("somebody/tiny") == "somebody/tiny", "it is not installed"
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (package / "model" / "config.json").write_text("{}")
    assert zoo.find_model("tiny") == zoo.find_model("somebody/tiny") == str(package / "model")


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
    with pytest.raises(FileNotFoundError, match=r"^no such folder: somebody/toyy; and it could") as found:
        datamux.load("somebody/toyy")
    assert "in the package" not in str(found.value)


def test_an_encoder_by_its_name_is_multiplexed(shipped):
    encoder = tiny_encoder()
    encoder.save_pretrained(shipped / "words")
    (shipped / "words/encoder.json").write_text("{}")
    model = datamux.multiplex("words", 2)
    assert torch.equal(model.get_input_embeddings().weight, encoder.get_input_embeddings().weight)
    with pytest.raises(ValueError, match="toy is multiplexed already"):
        datamux.multiplex("toy", 2)


def multiplexed_by_two(name):
    return datamux.multiplex(name, 2)


def frozen_around(name):
    return datamux.multiplex(name, 2, frozen=True)


LOADERS = (load_config, load_tokenizer, load_encoder, datamux.load, multiplexed_by_two, frozen_around)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("toyy", r"no such folder or Hub name: toyy; did you mean 'toy'\? \(in the package: toy\)"),
        ("runs/sst2/model", "no such folder: runs/sst2/model; give the folder of a model, or a name from"),
        ("./toy-model", "no such folder: ./toy-model; give the folder of a model"),
        ("somebody/something", "no such folder: somebody/something; and it could not be .* cannot be reached"),
        ("quite-different", r"no such folder: quite-different \(in the package: toy\); and .* cannot be reached"),
    ],
)
def test_a_wrong_name_is_refused_at_once_without_a_network(shipped, no_network, name, message):
    for load in LOADERS:
        begin = time.perf_counter()
        with pytest.raises(FileNotFoundError, match=message):
            load(name)
        assert time.perf_counter() - begin < 3


@pytest.mark.parametrize("load", LOADERS)
def test_a_hub_that_never_answers_is_waited_for_only_once(shipped, no_network, monkeypatch, load):
    monkeypatch.setattr(loading, "HUB_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts connections, and says nothing
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        begin = time.perf_counter()
        with pytest.raises(
            FileNotFoundError, match=r"quite-different \(in the package: toy\); and .* cannot be reached"
        ):
            load("quite-different")
        assert time.perf_counter() - begin < 3


def test_a_name_that_the_hub_does_not_know_is_refused(shipped, no_network, monkeypatch):
    def unknown(api, name, timeout):
        raise RepositoryNotFoundError("404", response=Mock())

    monkeypatch.setattr(HfApi, "model_info", unknown)
    with pytest.raises(FileNotFoundError, match=r"^no such folder or Hub name: somebody/something$"):
        load_config("somebody/something")


def test_a_model_in_the_hubs_cache_is_loaded_without_asking_the_hub(shipped, monkeypatch, tmp_path):
    snapshot = tmp_path / "cache/models--somebody--something/snapshots/1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(HfApi, "model_info", lambda *_, **__: pytest.fail("the Hub was asked"))
    with named("somebody/something"):
        pass


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
