"""`datamux tune` as a whole: every family and option in one run, no time, killed, served, as good as TF-IDF."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import datamux
from command_line import command
from conftest import write_jsonl
from datamux.client import Client
from datamux.evaluate.row_scores import find_metric, score_of
from datamux.serve.background import running
from datamux.serve.service import load_service
from datamux.serve.settings import Settings as ServeSettings
from datamux.tasks.examples import Examples
from datamux.train.simple_rivals import fit_rivals
from datamux.train.stages import train
from datamux.tuning import run as run_module
from datamux.tuning import search
from datamux.tuning.contender import recipe_of
from datamux.tuning.data import prepare
from datamux.tuning.families import FAMILIES
from datamux.tuning.families.words import contenders
from datamux.tuning.measure import rival_answers, score_predictor
from datamux.tuning.reference import _recipe
from datamux.tuning.settings import Settings
from datamux.tuning.subject import Subject, find_encoder
from tuning import QUICK, noted_in, reviews, write_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> str:
    """Wide enough for the small new encoders of the family `narrow`."""
    return write_encoder(tmp_path_factory.mktemp("encoder"), hidden=64)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    texts = [{"text": row["text"]} for row in reviews(60, seed=3)]
    return {
        "train": write_jsonl(folder, "train.jsonl", reviews(240)),
        "test": write_jsonl(folder, "test.jsonl", reviews(40, seed=1)),
        "unlabelled": write_jsonl(folder, "more.jsonl", texts),
    }


def test_with_no_time_after_the_reference_it_is_what_is_kept(tmp_path, files, encoder, monkeypatch):
    monkeypatch.setattr(run_module, "MEASURING", 1.0)  # of the budget: nothing is left for contenders
    for name in ("train", "seconds_per_step", "ask_reference"):
        monkeypatch.setattr(search, name, lambda *args, **options: pytest.fail("there is no time for it"))
    found = datamux.tune(files["train"], encoder=encoder, out=tmp_path / "best", budget="10s", engines=["torch"])
    assert found.record["chosen"] == "reference, torch"
    skipped = [row for row in found.table if row.get("failed") == "no time was left"]
    assert {row["family"] for row in skipped} == set(FAMILIES)
    assert "Nothing that was trained has 10 times" in found.record["tenfold"]
    assert found.best(["film 3 was good and long"])[0]["label"] in ("yes", "no")
    again = datamux.tune(files["train"], encoder=encoder, out=tmp_path / "best", budget="10s", engines=["torch"])
    assert again.record["chosen"] == "reference, torch"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_family_and_option_in_one_run(tmp_path, files, encoder):
    asked = {"metric": "macro-f1", "min_score": 20.0, "engines": ["torch"], "budget": "90s"}
    found = datamux.tune(**files, encoder=encoder, out=tmp_path / "best", **asked)
    families = {trial["family"] for trial in noted_in(found.folder)["trials"].values() if "folder" in trial}
    assert families == set(FAMILIES)
    assert found.record["metric"] == "macro F1"
    assert found.record["wish"] == "a score of at least 20"
    assert found.record["met"]
    assert next(row for row in found.table if row["chosen"])["score"] >= 20
    assert any(row["group_size"] > 1 for row in found.table if row["timed"]), "a mixed model is in the finals"
    tests = {row["name"]: row for row in found.record["test_results"]}
    assert {"reference, torch", found.record["chosen"], "TF-IDF with a linear model, scikit-learn"} <= tests.keys()
    assert {row["rows"] for row in tests.values()} == {40}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_training_that_was_killed_goes_on(tmp_path, files, encoder):
    """A real `kill -9`, in the middle of a contender's training."""
    out = tmp_path / "best"
    words = ["--train", files["train"], "--encoder", encoder, "-o", out, "--family", "cut", "--engine", "torch"]
    process = subprocess.Popen(command("tune", *words, "--budget", "3m"), stderr=subprocess.DEVNULL)
    until = time.monotonic() + 200
    while not list((out / "search").glob("*layer*/0/task/checkpoint-*/trainer_state.json")):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = noted_in(out)
    running_then = [name for name in before["started"] if name not in before["trials"]]
    lines: list[str] = []
    settings = {"encoder": encoder, "out": out, "families": ["cut"], "engines": ["torch"], "budget": "3m"}
    found = datamux.tune(files["train"], **settings, tell=lines.append)
    assert lines[0].startswith("continuing the search")
    after = noted_in(found.folder)
    assert after["spent"] > before["spent"] > 0
    for name in running_then:
        assert after["trials"][name]["steps"] == before["started"][name]


@pytest.mark.slow
def test_what_tune_leaves_can_be_served(tmp_path, files, encoder):
    found = datamux.tune(files["train"], encoder=encoder, out=tmp_path / "best", families=["cut"], max_drop=90, **QUICK)
    settings = ServeSettings(port=0, no_keys=True, no_playground=True, log_level="error")
    texts = [row["text"] for row in reviews(20, seed=5)]
    with running(load_service(str(found.folder), settings)) as address:
        answers = list(Client(address)(texts))
    assert len(answers) == 20
    assert {answer["label"] for answer in answers} <= {"yes", "no"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_words_alone_reach_tf_idf(tmp_path, encoder):
    """Also where pairs of words decide: `not good` is bad. The steps are fixed, so the pace does not matter."""
    chance, rows = random.Random(0), []
    for row in reviews(900):
        negated = chance.random() < 0.4
        text = row["text"].replace(" was ", " was not ") if negated else row["text"]
        rows.append({"text": text, "label": row["label"] if not negated else {"yes": "no", "no": "yes"}[row["label"]]})
    settings = Settings(out=tmp_path, train=write_jsonl(tmp_path, "train.jsonl", rows))
    data = prepare(settings, tmp_path / "rows")
    metric = find_metric(data.labels, tags=False)
    plain = find_encoder(encoder)
    reference = train(_recipe(plain, data, 60, 32, metric, 0), tmp_path / "reference", task=data.task)
    subject = Subject(plain, str(reference), True, 32, False, len(data.train))
    scores = []
    for number, contender in enumerate(contenders(subject)):
        recipe = recipe_of(contender, steps=300, teacher=str(reference), max_tokens=32, seed=0)
        model = train(recipe, tmp_path / f"words-{number}", task=data.task)
        scores.append(score_predictor(datamux.load(model), data.choice, data.labels, metric, 1).score)
    (tf_idf,) = (
        rival for rival in fit_rivals(data.train, data.labels, left_out=pytest.fail) if rival.name.startswith("TF-IDF")
    )
    choice: Examples = data.choice
    theirs = score_of(metric, metric.of_rows(rival_answers(tf_idf, choice, data.labels), choice, data.labels))
    assert max(scores) >= theirs - 0.01
    assert theirs > 0.8
