"""The encoder in the package: how it was trained is an experiment, and what is packed can be trained on."""

import pytest
import torch
from safetensors.torch import load_file
from test_your_file import pretrained

from command_line import succeed
from datamux.hub.loading import load_config, load_model
from datamux.reproduce.catalogue import get_experiment
from datamux.reproduce.experiment import Experiment
from datamux.reproduce.runner import Runner
from datamux.tasks.labels import Labels
from datamux.train.build import build
from datamux.train.recipe import ModelSettings, load_recipe
from datamux.train.stages import as_plain
from datamux.zoo import shipped_encoders

PRETRAIN, PACK = "retrieval/pretrain-plain", "packaged-models/encoder"
TEXTS = ["Anna lives in Paris and works at Acme.", "The film was not very good.", "Nobody came to see the band."]
TINY = {"model.layers": 2, "model.hidden": 16, "model.heads": 2, "model.vocab_size": 90, "run.bf16": False}
SHORT = {"warmup.steps": 3, "warmup.groups": 4, "warmup.tokens": 8, "run.eval_rows": 4}


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """A tiny encoder that the runner trained by the recipe of the one in the package, and packed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS * 40))
    settings = TINY | SHORT | {"warmup.corpus": str(tmp_path / "corpus.txt"), "warmup.teacher": "{encoder}"}
    pretrain = Experiment("retrieval", "tiny", "train", get_experiment(PRETRAIN).recipe, settings)
    pack = Experiment(
        "packaged-models", "small", "package", settings={"model": "{retrieval/tiny}"}, about="A small one"
    )
    runner = Runner(
        tmp_path / "out",
        lambda words: print(succeed(*words)),
        encoder=str(pretrained(tmp_path / "teacher", TEXTS)),
        experiments={experiment.id: experiment for experiment in (pretrain, pack)},
    )
    assert runner.run([pack]) == [], "an encoder has no task, and so no record"
    assert runner.plan([pack]) == [], "what is packed is not packed again"
    return runner.place(pack, 0), runner.place(pretrain, 0)


def test_a_packed_encoder_is_the_trained_one_in_half_precision(packed):
    folder, trained = packed
    weights, before = load_file(folder / "model.safetensors"), load_model(str(trained)).state_dict()
    assert {value.dtype for value in weights.values()} == {torch.float16}
    after = load_model(str(folder)).state_dict()
    assert after.keys() == before.keys()
    for name, value in before.items():
        torch.testing.assert_close(after[name].float(), value, atol=1e-3, rtol=1e-3, msg=name)


def test_training_starts_from_a_packed_encoder(packed):
    folder, trained = packed
    settings = ModelSettings(start=str(folder), num_instances=3, mux_layer=1, multiplexer="sign")
    model = build(settings, "sequence-classification", vocab_size=50, labels=Labels(("no", "yes")))
    for name, value in load_model(str(trained)).backbone.encoder.state_dict().items():
        torch.testing.assert_close(model.backbone.encoder.state_dict()[name], value, atol=1e-3, rtol=1e-3, msg=name)


def test_a_packed_encoder_says_how_it_was_trained(packed, tmp_path, monkeypatch):
    folder, _ = packed
    monkeypatch.setattr("datamux.zoo.HOME", folder.parent)
    (about,) = shipped_encoders().values()
    assert (about["what"], about["steps"], about["seed"], about["num_instances"]) == ("A small one", 3, 0, 1)
    assert about["corpus"] == str(tmp_path / "corpus.txt")
    assert about["teacher"] == str(tmp_path / "teacher")


def test_the_experiment_says_how_the_encoder_in_the_package_was_trained():
    """Every field of its `encoder.json` that is not of the moment, and every size of its network."""
    about, pretrain = shipped_encoders()["encoder"], get_experiment(PRETRAIN)
    recipe = as_plain(load_recipe(pretrain.recipe))
    assert get_experiment(PACK).needs == (PRETRAIN,)
    assert get_experiment(PACK).about == about["what"]
    assert (recipe.warmup.corpus, recipe.warmup.teacher, recipe.warmup.steps) == (
        about["corpus"],
        about["teacher"],
        about["steps"],
    )
    assert pretrain.seeds == (about["seed"],)
    model = build(recipe.model, "retrieval", vocab_size=recipe.model.vocab_size)
    assert sum(weight.numel() for weight in model.parameters()) == about["parameters"]
    ours, shipped = model.config.to_dict(), load_config("encoder").to_dict()
    for name in ("num_instances", "mux_layer", "multiplexer", "demultiplexer", "pooling", "retrieval_head", "seed"):
        assert ours[name] == shipped[name], name
    for name in ("model_type", "num_hidden_layers", "hidden_size", "vocab_size", "hidden_dropout_prob"):
        assert ours["backbone_config"][name] == shipped["backbone_config"][name], name


def test_the_chain_ends_in_the_package(tmp_path):
    """The teacher is the encoder that the user names; where it ships already, nothing of it is missing."""
    said = succeed("reproduce", PACK, "--dry-run", "--encoder", "some/encoder", "-o", tmp_path)
    train, pack = said.splitlines()
    assert train.startswith("1. datamux train small/pretrain-plain --out ")
    assert 'warmup.teacher="some/encoder"' in train
    source = tmp_path / "models/retrieval/pretrain-plain/seed0/warmup/model"
    assert pack == f"2. pack {source} into {tmp_path / 'packaged/encoder'}"
    assert "nothing is left to run" in succeed("reproduce", PACK, "--missing", "--dry-run", "-o", tmp_path)
