"""The runner: needs first, everything once, an interruption costs only the step that it hit."""

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import command, run
from datamux.evaluate.records import read_record
from datamux.reproduce.catalogue import EXPERIMENTS, get_experiment
from datamux.reproduce.experiment import Experiment, narrowed
from datamux.reproduce.records import RESULTS
from datamux.reproduce.runner import Runner

TINY = {
    "model.layers": 1,
    "model.hidden": 16,
    "model.heads": 2,
    "model.vocab_size": 40,
    "task.steps": 4,
    "run.bf16": False,
}
TAUGHT = {"model.tokenizer": "{tiny/plain}", "task.teacher": "{tiny/plain}", "task.distill_logits": 0.5}


@pytest.fixture
def rows(tmp_path) -> Path:
    texts = [("good film", "praise"), ("the plot was very bad .", "blame"), ("a film", "blame")] * 8
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in texts))
    return tmp_path / "rows.csv"


@pytest.fixture
def tiny(rows) -> dict[str, Experiment]:
    """A plain model, and a mixed one of two seeds that learns from it."""
    shared = {"family": "tiny", "task": str(rows), "train_file": str(rows), "groupings": 1}
    warmup = {"warmup.steps": 0, "model.num_instances": 2}
    plain = Experiment("tiny", "plain", "train", "small/your-file-plain", TINY, **shared)
    mixed = Experiment(
        "tiny",
        "n2",
        "train",
        "small/your-file",
        TINY | TAUGHT | warmup,
        n=2,
        seeds=(0, 1),
        group_sizes=(1, 2),
        **shared,
    )
    return {experiment.id: experiment for experiment in (plain, mixed)}


class Commands:
    """Runs commands in this process; notes them; fails at some of them, as if it had been interrupted."""

    def __init__(self, *interrupted: int) -> None:
        self.given: list[list[str]] = []
        self.interrupted = interrupted

    def __call__(self, words: list[str]) -> None:
        self.given.append(words)
        if len(self.given) in self.interrupted:
            raise KeyboardInterrupt
        done = run(*words)
        assert done.returncode == 0, done.stderr

    @property
    def short(self) -> list[tuple[str, str]]:
        """The command, and the experiment and seed of its model."""
        places = [next(Path(word) for word in words if "/models/" in word) for words in self.given]
        return [
            (words[0], "/".join(p.parts[p.parts.index("tiny") + 1 :][:2]))
            for words, p in zip(self.given, places, strict=True)
        ]


ALL = [
    ("train", "plain/seed0"),
    ("train", "n2/seed0"),
    ("evaluate", "n2/seed0"),
    ("train", "n2/seed1"),
    ("evaluate", "n2/seed1"),
]


def test_needs_run_first_and_an_interruption_costs_one_step(tiny, tmp_path):
    first, second = Commands(4), Commands()
    runner = Runner(tmp_path / "out", first, experiments=tiny)
    with pytest.raises(KeyboardInterrupt):
        runner.run([tiny["tiny/n2"]])
    assert first.short == ALL[:4]
    (before,) = (tmp_path / "out/records/tiny").iterdir()
    stamp = before.stat().st_mtime_ns

    told: list[str] = []
    runner = replace(runner, command=second)
    assert [step.says.split()[1] for step in runner.plan([tiny["tiny/n2"]])] == ["train", "evaluate"]
    files = runner.run([tiny["tiny/n2"]], told.append)
    assert second.short == ALL[3:], "what was finished is not run again"
    assert [line.partition(":")[0] for line in told] == ["step 1 of 2", "step 2 of 2"]
    assert before.stat().st_mtime_ns == stamp

    assert [file.name for file in files] == ["n2-seed0.json", "n2-seed1.json"]
    records = [read_record(file) for file in files]
    assert [record["seed"] for record in records] == [0, 1]
    for record in records:
        assert (record["experiment"], record["figure"], record["family"]) == ("tiny/n2", "tiny", "tiny")
        assert record["variant"] == {"n": 2, **tiny["tiny/n2"].settings}
        assert record["recipe"]["run"]["seed"] == record["seed"]
        assert [row["group_size"] for row in record["results"]] == [1, 2]
        assert record["recipe"]["task"]["teacher"].endswith("models/tiny/plain/seed0/task/model")
    assert runner.plan([tiny["tiny/n2"]]) == []
    assert [step.says.split()[1] for step in runner.plan(tiny.values())] == ["evaluate"], "plain has no record yet"


def test_other_settings_are_another_experiment(tiny, tmp_path):
    """A record of other settings does not count as done."""
    runner = Runner(tmp_path / "out", Commands(), experiments=tiny)
    file = runner.records / "tiny/plain-seed0.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"variant": {"n": 1, **TINY, "task.steps": 5}}))
    assert len(runner.plan([tiny["tiny/plain"]])) == 2
    file.write_text(json.dumps({"variant": {"n": 1, **TINY}}))
    assert runner.plan([tiny["tiny/plain"]]) == []


def test_an_experiment_whose_code_was_removed_is_refused_before_anything_runs(tmp_path):
    commands = Commands()
    with pytest.raises(ValueError, match="sst2/scratch-n20-bypass cannot be run again"):
        Runner(tmp_path, commands).run([get_experiment("qqp/scratch-plain"), get_experiment("sst2/scratch-n20-bypass")])
    assert commands.given == []


def test_a_package_is_written_beside_the_records_and_not_into_the_installed_package(tmp_path):
    runner = Runner(tmp_path, Commands(), encoder="some/encoder")
    steps = [step.says for step in runner.plan([get_experiment("packaged-models/sentiment")])]
    assert steps[-2].startswith("pack ")
    assert steps[-2].endswith(f"into {tmp_path}/packaged/sentiment")
    assert steps[-1].startswith(f"datamux evaluate {tmp_path}/packaged/sentiment --task sst2")
    assert f"write the texts {tmp_path}/texts/sst2.txt" in steps
    assert 'model.start="some/encoder"' in steps[0]


def test_what_has_a_committed_record_is_left_alone_if_wanted(tmp_path):
    runner = Runner(tmp_path, Commands(), use_committed=True)
    assert runner.plan([get_experiment("sst2/scratch-n20"), get_experiment("mnist-mlp")]) == []
    assert len(runner.plan([get_experiment("qqp/distilled-n20")])) > 1
    assert (RESULTS / "mnist/mnist-mlp.json").exists()
    narrow = narrowed(get_experiment("mnist-mlp"), sizes=[2])
    assert runner.plan([narrow]) == [], "the committed record has all sizes"
    retired = [e for e in EXPERIMENTS.values() if e.retired]
    assert retired
    assert runner.plan(retired) == []


def test_a_committed_record_of_other_settings_does_not_count(tmp_path):
    """As a record in OUT does not count when the experiment was changed."""
    experiment = get_experiment("sst2/scratch-n20")
    changed = replace(experiment, settings=dict(experiment.settings) | {"task.steps": 7})
    steps = Runner(tmp_path, Commands(), use_committed=True).plan([changed])
    assert any("task.steps=7" in step.says for step in steps)


def test_a_killed_command_continues_with_the_next_network(tmp_path):
    """A real process is killed while it trains; the network that was finished is not trained again."""
    options = ["--series", "ortho", "-n", "2", "-n", "1", "--seeds", "1", "--epochs", "1", "--held-out", "-o", tmp_path]
    words = command("reproduce", "mnist-mlp", *options)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = tmp_path / "held-out/runs"
    for _ in range(1200):
        if folder.exists() and any(folder.glob("*.json")):
            break
        assert process.poll() is None, "it ended by itself"
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (done,) = folder.glob("*.json")
    assert not (tmp_path / "held-out/records").exists()
    stamp = done.stat().st_mtime_ns
    again = run("reproduce", "mnist-mlp", *options)
    assert again.returncode == 0, again.stderr
    assert "step 1 of 1: mnist/mnist-mlp: 2 runs of ortho" in again.stderr
    assert done.stat().st_mtime_ns == stamp
    assert len(list(folder.glob("*.json"))) == 2
    assert [row["n"] for row in read_record(tmp_path / "held-out/records/mnist/mnist-mlp.json")["results"]] == [2, 1]
