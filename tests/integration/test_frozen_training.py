"""Training around a frozen classifier, for ensembling, and in three stages: what comes out, and resuming."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_training import BAD, FILL, GOOD, write_sentences

import datamux
from datamux.evaluate.evaluate_model import evaluate_model
from datamux.hub.loading import load_model
from datamux.inference.export import export_model
from datamux.tasks.task import task_from_files
from datamux.train.recipe import parse_recipe
from datamux.train.stages import train

TINY = {
    "model": {"layers": 2, "hidden": 32, "heads": 2, "vocab_size": 200, "max_tokens": 16, "num_instances": 2},
    "task": {"alpha": 0.0, "learning_rate": 3e-3, "groups": 24},
    "run": {"bf16": False, "warmup_steps": 10, "save_steps": 1000, "eval_steps": 1000},
}
REVERSIBLE = {
    "frozen": True,
    "mux_layer": 1,
    "multiplexer": "reversible",
    "multiplexer_options": {},
    "demultiplexer": "reversible",
}
LOW_RANK = {"frozen": True, "mux_layer": 1, "multiplexer": "sign", "low_rank": 4}


def recipe(**sections):
    return parse_recipe({name: TINY.get(name, {}) | sections.get(name, {}) for name in {*TINY, *sections}})


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    return {
        "train": write_sentences(folder / "train.csv", 800, 0),
        "validation": write_sentences(folder / "val.csv", 200, 1),
    }


@pytest.fixture(scope="module")
def plain(files, tmp_path_factory) -> Path:
    task = task_from_files(files, ["text"], "label")
    settings = recipe(task={"steps": 40, "groups": 48}, run={"plain": True})
    return train(settings, tmp_path_factory.mktemp("plain"), task=task)


@pytest.mark.parametrize(
    ("parts", "losses"),
    [(REVERSIBLE, {"contrastive": 0.25, "orthogonality": 0.1}), (LOW_RANK, {})],
    ids=["rev", "rank"],
)
def test_the_new_parts_learn_and_a_single_text_is_answered_as_before(parts, losses, files, plain, tmp_path):
    task = task_from_files(files, ["text"], "label")
    settings = recipe(model=parts | {"start": str(plain)}, task={"steps": 40, "extra_losses": losses})
    final = train(settings, tmp_path / "run", task=task)
    assert not any("head" in name or "encoder." in name for name in load_file(final / "model.safetensors"))
    found = evaluate_model(str(final), str(files["validation"]), bf16=False)
    before = evaluate_model(str(plain), str(files["validation"]), bf16=False)
    single, mixed = found["results"]
    assert single["score"] == before["results"][0]["score"]
    assert mixed["group_size"] == 2
    assert mixed["score"] > 0.85
    assert 0 <= single["other"]["ece"] <= 1
    one, other = load_model(str(plain)), load_model(str(final))
    ids = torch.randint(5, one.backbone.words.num_embeddings, (4, 9))
    with torch.no_grad():
        assert torch.equal(one(ids).logits, other(ids, group_size=1).logits)
    stage = json.loads((final / "training.json").read_text())[-1]
    logged = [entry for entry in stage["log"] if "task_loss" in entry]
    assert losses.keys() <= logged[0].keys()
    with pytest.raises(ValueError, match="runs one network at group size 1 and a different one at larger"):
        export_model(str(final), tmp_path / "exported")


def test_a_text_that_is_longer_than_in_training_is_read_as_before(files, plain, tmp_path):
    """The recipe cuts texts at 6 tokens while it trains; the classifier reads 16, and goes on doing so."""
    task = task_from_files(files, ["text"], "label")
    settings = recipe(model=LOW_RANK | {"start": str(plain), "max_tokens": 6}, task={"steps": 1, "groups": 4})
    final = train(settings, tmp_path / "run", task=task)
    before, after = datamux.load(plain), datamux.load(final)
    texts = [" ".join([FILL[number]] * 9 + [word]) for number in range(3) for word in (GOOD[0], BAD[0])]
    found = after(texts, group_size=1)
    assert found == before(texts)
    assert len({answer["score"] for answer in found}) == len(texts), "the last word is read"
    assert after.texts.max_tokens == before.texts.max_tokens == 16
    files = {"task": str(files["validation"]), "bf16": False}
    scores = [evaluate_model(str(place), group_sizes=[1], **files)["results"][0]["score"] for place in (plain, final)]
    assert scores[0] == scores[1] > 0.85


def test_an_interrupted_run_goes_on(files, plain, tmp_path):
    task = task_from_files(files, ["text"], "label")
    settings = recipe(
        model=LOW_RANK | {"start": str(plain)}, task={"steps": 6, "groups": 4}, run=TINY["run"] | {"save_steps": 3}
    )
    whole = train(settings, tmp_path / "whole", task=task)
    stopped = tmp_path / "stopped"
    train(settings, stopped, task=task)
    for place in (stopped / "task" / "model", stopped / "task" / "checkpoint-6"):
        for file in place.iterdir():
            file.unlink()
        place.rmdir()
    again = train(settings, stopped, task=task)
    expected, found = load_file(whole / "model.safetensors"), load_file(again / "model.safetensors")
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, atol=1e-6, rtol=1e-5, msg=name)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": {"start": ""}}, "name it with --start"),
        ({"task": {"alpha": 0.1}}, "leaves out retrieval"),
        ({"warmup": {"steps": 1}}, "leaves out retrieval"),
        ({"task": {"start_size": 1}}, "must be at least 2 with model.frozen"),
        ({"model": {"num_instances": 1}}, "choose at least 2"),
    ],
)
def test_what_does_not_go_with_a_frozen_model(changed, message, files, plain, tmp_path):
    sections = {"model": LOW_RANK | {"start": str(plain)}, "task": {"steps": 1}}
    sections = {name: sections.get(name, {}) | changed.get(name, {}) for name in {*sections, *changed}}
    with pytest.raises(ValueError, match=message):
        train(recipe(**sections), tmp_path / "run", task=task_from_files(files, ["text"], "label"))


def test_a_model_learns_to_answer_one_text_from_all_slots(files, tmp_path):
    task = task_from_files(files, ["text"], "label")
    final = train(recipe(task={"steps": 60, "repetition": 0.5, "groups": 32}), tmp_path / "run", task=task)
    found = evaluate_model(str(final), str(files["validation"]), group_sizes=[1], filler="repeat", bf16=False)
    assert found["results"][0]["score"] > 0.9
    assert found["results"][0]["filler"] == "repeat"


def test_three_stages(tmp_path, files):
    corpus = tmp_path / "corpus.txt"
    words = [*FILL, *GOOD]
    corpus.write_text("\n".join(" ".join(words[(i + j * j) % len(words)] for j in range(12)) for i in range(300)))
    stage = {"steps": 4, "corpus": str(corpus), "tokens": 8, "groups": 4}
    settings = recipe(
        model={"demultiplexer": "deep_key"},
        warmup=stage,
        pretrain=stage | {"mask_rate": 0.15},
        task={"steps": 3, "groups": 4},
    )
    final = train(settings, tmp_path / "run", task=task_from_files(files, ["text"], "label"))
    stages = json.loads((final / "training.json").read_text())
    assert [stage["stage"] for stage in stages] == ["warmup", "pretrain", "task"]
    logged = {name: [e for e in part["log"] if "retrieval_loss" in e] for name, part in zip("wpt", stages, strict=True)}
    assert "masked_loss" not in logged["w"][0]
    assert "masked_loss" in logged["p"][0]
    second = load_model(tmp_path / "run" / "pretrain" / "model")
    assert second.config.demultiplexer == "deep_key"
    before = {"model": {"demultiplexer": "deep_key"}, "warmup": stage, "pretrain": stage | {"mask_rate": 0.15}}
    shared = train(recipe(**before, task={"steps": 0}), tmp_path / "shared")
    assert shared == tmp_path / "shared" / "pretrain" / "model", "where the runner looks for it"
    only_task = recipe(model={"demultiplexer": "deep_key", "start": str(shared)}, task={"steps": 3, "groups": 4})
    other = train(only_task, tmp_path / "other", task=task_from_files(files, ["text"], "label"))
    assert [s["stage"] for s in json.loads((other / "training.json").read_text())] == ["warmup", "pretrain", "task"]


def test_the_plain_rival_of_an_ensemble_trains_with_its_recipe(files, plain, tmp_path):
    """Repetition means nothing without mixing; the plain model starts from, and learns from, the same classifier."""
    learned = {"steps": 3, "groups": 8, "min_rows": 48, "repetition": 0.5, "distill_logits": 0.5}
    settings = recipe(
        model={"start": str(plain)}, task=learned | {"teacher": str(plain)}, run=TINY["run"] | {"plain": True}
    )
    final = train(settings, tmp_path / "run", task=task_from_files(files, ["text"], "label"))
    assert load_model(final).config.num_instances == 1
    stages = json.loads((final / "training.json").read_text())
    assert [stage["stage"] for stage in stages] == ["task", "task"]
    assert any("logit_distance" in entry for entry in stages[-1]["log"])
