"""`datamux train` and `datamux evaluate` as a user runs them: on a plain file, interrupted, resumed."""

import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from command_line import command
from command_line import run as run_command
from command_line import succeed as datamux
from datamux.evaluate.quality import _with_cut_words, main_metric, score
from datamux.tasks.labels import Labels

RECIPE = """# tiny
[model]
layers = 1
hidden = 32
heads = 2
vocab_size = 200
max_tokens = 16
num_instances = 3
demultiplexer = "gate"

[task]
steps = {steps}
groups = 16
min_rows = 48
learning_rate = 3e-3
alpha = {alpha}

[run]
bf16 = false
save_steps = 20
eval_steps = 1000
warmup_steps = 10
"""
GOOD, BAD = ["good", "great", "fine", "lovely"], ["bad", "awful", "poor", "dull"]
FILL = ["the", "film", "was", "plot", "and", "it", "so"]


def write_sentences(file: Path, rows: int, seed: int) -> Path:
    chance = random.Random(seed)
    with file.open("w") as handle:
        handle.write("text,label\n")
        for _ in range(rows):
            label = chance.random() < 0.5
            words = [*chance.choices(FILL, k=chance.randint(2, 6)), chance.choice(GOOD if label else BAD)]
            chance.shuffle(words)
            handle.write(f"{' '.join(words)},{'praise' if label else 'blame'}\n")
    return file


def write_tags(file: Path, rows: int, seed: int) -> Path:
    chance = random.Random(seed)
    with file.open("w") as handle:
        for _ in range(rows):
            words = chance.choices(FILL + GOOD, k=chance.randint(2, 6))
            tags = ["B-NICE" if word in GOOD else "O" for word in words]
            handle.write(json.dumps({"tokens": words, "tags": tags}) + "\n")
    return file


@pytest.fixture
def recipe(tmp_path):
    def write(steps: int, alpha: float = 0.1) -> Path:
        file = tmp_path / f"recipe{steps}.toml"
        file.write_text(RECIPE.format(steps=steps, alpha=alpha))
        return file

    return write


def test_a_classifier_from_a_csv(tmp_path, recipe):
    train, test = write_sentences(tmp_path / "train.csv", 3000, 0), write_sentences(tmp_path / "test.csv", 301, 1)
    out = tmp_path / "run"
    said = datamux("train", recipe(250), "-o", out, "--train", train, "--validation", test)
    model = out / "task" / "model"
    assert str(model) in said
    record = tmp_path / "record.json"
    found = json.loads(datamux("evaluate", model, "--task", test, "--json", "--record", record))
    assert [row["group_size"] for row in found["results"]] == [1, 2, 3]
    for row in found["results"]:
        assert row["rows"] == 301
        assert row["score"] > 0.95
        assert len(row["slots"]) == row["group_size"]
    assert found["recipe"]["model"]["num_instances"] == 3
    assert json.loads(record.read_text())["versions"]["torch"]
    assert json.loads((model / "config.json").read_text())["id2label"] == {"0": "blame", "1": "praise"}
    filled = json.loads(datamux("evaluate", model, "--task", test, "--json", "--filler", "repeat", "-k", 2))
    assert filled["results"][0]["filler"] == "repeat"
    assert filled["results"][0]["score"] > 0.95
    assert list((out / "task").rglob("events.out.tfevents.*")), "logs for TensorBoard"
    assert "group size" in datamux("evaluate", model, "--task", test)


def test_a_classifier_without_a_recipe(tmp_path):
    write_sentences(tmp_path / "mine.csv", 1500, 0)
    write_sentences(tmp_path / "test.csv", 101, 1)
    sizes = ("model.layers=1", "model.hidden=32", "model.heads=2", "model.vocab_size=200", "run.bf16=false")
    sizes += ("warmup.steps=60", "warmup.tokens=8", "task.steps=150", "task.learning_rate=3e-3", "run.warmup_steps=10")
    settings = [part for size in sizes for part in ("--set", size)]
    said = datamux("train", "--train", "mine.csv", "--num-instances", 3, *settings, cwd=tmp_path)
    model = "runs/mine-n3/task/model"
    assert f"datamux predict {model} FILE -o ANSWERS.csv --text text" in said
    logs = json.loads((tmp_path / model / "training.json").read_text())
    assert [stage["stage"] for stage in logs] == ["warmup", "task"]  # warmed up on its own texts
    assert "eval_score" in logs[1]["log"][-2] | logs[1]["log"][-1]  # on every tenth row, held out
    found = json.loads(datamux("evaluate", model, "--task", "test.csv", "--json", "-k", 3, cwd=tmp_path))
    assert found["results"][0]["score"] > 0.9
    datamux("predict", model, "test.csv", "-o", "answers.csv", cwd=tmp_path)
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 102


def test_nothing_to_train_is_said(tmp_path):
    done = run_command("train")
    assert done.returncode == 2
    assert "name a recipe (see datamux ls recipes), or give your own rows with --train FILE" in done.stderr


def test_a_tagger_from_jsonl(tmp_path, recipe):
    train, test = write_tags(tmp_path / "train.jsonl", 3000, 0), write_tags(tmp_path / "test.jsonl", 100, 1)
    columns = ("--text", "tokens", "--label", "tags")
    datamux("train", recipe(250), "-o", tmp_path / "run", "--train", train, *columns)
    found = json.loads(datamux("evaluate", tmp_path / "run/task/model", "--task", test, "--json", *columns))
    assert all(row["metric"] == "f1" and row["score"] > 0.9 for row in found["results"])


def test_killed_and_resumed_is_the_same_as_never_killed(tmp_path, recipe):
    train = write_sentences(tmp_path / "train.csv", 2000, 0)
    file = recipe(60)
    # Learning word pieces breaks ties at random, so the two runs must share a tokenizer to be comparable.
    datamux("train", recipe(1), "-o", tmp_path / "first", "--train", train)
    same = ("--train", train, "--set", f"model.tokenizer={tmp_path / 'first/tokenizer'}")
    datamux("train", file, "-o", tmp_path / "straight", *same)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    killed = subprocess.Popen(
        command("train", file, "-o", tmp_path / "killed", *same),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    state = tmp_path / "killed/task/checkpoint-20/trainer_state.json"
    deadline = time.monotonic() + 150
    while not state.exists() and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert state.exists()
    assert not (tmp_path / "killed/task/model").exists(), "it must have been killed before it was done"
    datamux("train", file, "-o", tmp_path / "killed", *same)
    straight = load_file(tmp_path / "straight/task/model/model.safetensors")
    resumed = load_file(tmp_path / "killed/task/model/model.safetensors")
    for name, tensor in straight.items():
        assert tensor.equal(resumed[name]), name


@pytest.mark.slow
def test_two_machines_train_one_model(tmp_path, recipe):
    train, test = write_sentences(tmp_path / "train.csv", 3000, 0), write_sentences(tmp_path / "test.csv", 301, 1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1", "--rdzv_id=test"]
    launch += ["--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}", "-m", "datamux.cli"]
    arguments = ["train", recipe(200), "-o", tmp_path / "run", "--train", train, "--validation", test]
    arguments += ["--set", "warmup.corpus=task", "--set", "warmup.steps=20", "--set", "warmup.tokens=8"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    machines = [
        subprocess.Popen(
            [*launch, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(2)
    ]
    said = [machine.communicate(timeout=250) for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], said[0][1][-3000:]
    assert sum("trained:" in out for out, _ in said) == 1, "one process speaks for all"
    found = json.loads(datamux("evaluate", tmp_path / "run/task/model", "--task", test, "--json"))
    assert all(row["score"] > 0.95 for row in found["results"])
    logs = json.loads((tmp_path / "run/task/model/training.json").read_text())
    assert [stage["steps"] for stage in logs] == [20, 200]


def test_another_recipe_does_not_overwrite_a_run(tmp_path, recipe):
    train = write_sentences(tmp_path / "train.csv", 200, 0)
    datamux("train", recipe(2), "-o", tmp_path / "run", "--train", train)
    done = run_command("train", recipe(3), "-o", tmp_path / "run", "--train", train)
    assert done.returncode == 2
    assert "holds a run of another recipe" in done.stderr
    assert "Traceback" not in done.stderr


def test_scores():
    single = Labels(("a", "b"))
    sure = 1 / (1 + math.exp(-1))  # each of the three answers is given with this probability
    assert score([[2, 1], [0, 1], [1, 0]], [0, 1, 1], single) == pytest.approx(
        {"accuracy": 2 / 3, "score": 2 / 3, "f1": 2 / 3, "ece": sure - 2 / 3}
    )
    three = score([[2, 1, 0], [0, 1, 0], [1, 0, 3]], [0, 1, 1], Labels(("a", "b", "c")))
    assert three["f1_macro"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    several = Labels(("a", "b"), "multi_label_classification")
    assert score([[1, -1], [1, 1]], [[1, 0], [0, 1]], several)["f1"] == pytest.approx(0.8)
    assert score([[0.5], [1.0]], [0.0, 1.0], Labels(("score",), "regression"))["mse"] == pytest.approx(0.125)
    tags = Labels(("O", "B-X", "I-X"))
    logits = [[[9, 0, 0], [0, 9, 0], [0, 0, 9]], [[0, 9, 0], [9, 0, 0], [9, 0, 0]]]
    found = score(logits, [[0, 1, 2], [1, 1, -100]], tags)
    assert found["accuracy"] == pytest.approx(4 / 5)
    assert found["f1"] == pytest.approx(2 * (2 / 2) * (2 / 3) / (2 / 2 + 2 / 3))


def test_tags_of_words_alone_are_scored_by_accuracy(recwarn):
    parts = Labels(("ADJ", "NOUN", "VERB"))
    logits = [[[9, 0, 0], [0, 9, 0], [0, 0, 9]]]
    sure = 1 / (1 + 2 * math.exp(-9))
    found = score(logits, [[0, 1, 1]], parts)
    assert found == pytest.approx({"accuracy": 2 / 3, "score": 2 / 3, "ece": sure - 2 / 3})
    assert not recwarn.list
    assert main_metric(parts, tags=True) == "accuracy"
    assert main_metric(Labels(("O", "B-X")), tags=True) == "f1"


@pytest.mark.parametrize("names", [("O", "B-X", "I-X"), ("B-X", "I-X", "O"), ("ADJ", "NOUN", "VERB")])
def test_a_word_that_was_cut_off_is_never_right(names):
    truth = torch.tensor([-100, 1, 1])
    said = _with_cut_words(torch.zeros(2, 3), truth, Labels(names))[2].argmax()
    assert said == names.index("O") if "O" in names else said != 1
