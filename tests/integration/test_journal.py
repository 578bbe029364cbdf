"""An interrupted `datamux predict` goes on; two at once do not; what changed meanwhile is noticed."""

import io
import json
import signal
import subprocess
import sys

import pytest
from predicting import MANY, TEXTS, rows_of, write
from typer.testing import CliRunner

import datamux
from datamux.cli import app
from datamux.cluster.manifest import fingerprint_of
from datamux.inference.files import STDIN, predict_file
from datamux.inference.journal import identity


@pytest.mark.parametrize("torn", ["", '{"n": 1, "out": {"te'])
def test_an_interrupted_run_goes_on(predictor, tmp_path, monkeypatch, torn):
    source = write(tmp_path / "in.csv", [{"id": str(i), "text": MANY[i]} for i in range(30)])
    output, journal = tmp_path / "out.csv", tmp_path / "out.csv.part"
    whole = predictor.runtime.logits
    passes = []

    def breaks(batch, group_size):
        if len(passes) == 3:
            raise KeyboardInterrupt
        passes.append(len(batch["input_ids"]))
        return whole(batch, group_size)

    predictor.positions = 16  # several passes, all of one window
    with monkeypatch.context() as patch:
        patch.setattr(predictor.runtime, "logits", breaks)
        with pytest.raises(KeyboardInterrupt):
            predict_file(predictor, source, output, group_size=1)
    assert not output.exists()
    kept = [json.loads(line)["n"] for line in journal.read_text().splitlines()[1:]]
    assert len(kept) == sum(passes), "every pass that ended is kept"
    assert sorted(kept) != list(range(1, len(kept) + 1)), "the longest texts run first, wherever they stand"
    with journal.open("a") as lines:
        lines.write(torn)
    with pytest.raises(ValueError, match="a run with another group_size; remove it to start anew"):
        predict_file(predictor, source, output, group_size=2)
    done = predict_file(predictor, source, output, group_size=1)
    assert (done.rows, done.resumed_after) == (30, len(kept))
    found = rows_of(output)
    assert [row["id"] for row in found] == [str(i) for i in range(30)]
    expected = [answer["score"] for answer in predictor(MANY, group_size=1)]
    assert len({round(score, 6) for score in expected}) == len(MANY)
    assert [float(row["predicted_score"]) for row in found] == pytest.approx(expected)


KILLED = """
import os, signal, sys
from pathlib import Path
import datamux
from datamux.inference.files import predict_file

folder = Path(sys.argv[1])
predictor = datamux.load(folder / "model")
predictor.positions = 16
whole, passes = predictor.runtime.logits, []

def dies(batch, group_size):
    if len(passes) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    passes.append(len(batch["input_ids"]))
    print(passes[-1], flush=True)
    return whole(batch, group_size)

predictor.runtime.logits = dies
predict_file(predictor, folder / "in.csv", folder / "out.csv", group_size=1)
"""


def test_a_killed_run_keeps_every_pass_that_ended(predictor, tmp_path):
    source = write(tmp_path / "in.csv", [{"id": str(i), "text": MANY[i]} for i in range(30)])
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], capture_output=True, text=True, timeout=200)
    assert done.returncode == -signal.SIGKILL, done.stderr
    answered = sum(map(int, done.stdout.split()))
    assert answered > 0
    assert predict_file(predictor, source, tmp_path / "out.csv", group_size=1).resumed_after == answered
    assert [row["id"] for row in rows_of(tmp_path / "out.csv")] == [str(i) for i in range(30)]


def test_a_mistake_leaves_no_journal(predictor, tmp_path):
    source, output = write(tmp_path / "in.csv", [{"body": "good film"}]), tmp_path / "out.csv"
    for options in ({"text": ["text"]}, {"text": ["body"], "group_size": 4}):
        with pytest.raises(ValueError, match=r"no such column|group_size"):
            predict_file(predictor, source, output, **options)
    with pytest.raises(ValueError, match="no such file"):
        predict_file(predictor, tmp_path / "none.csv", output)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.csv", "model"]


def test_a_journal_without_answers_is_discarded(predictor, tmp_path):
    source = write(tmp_path / "in.csv", [{"text": "good film"}])
    (tmp_path / "out.csv.part").write_text('{"source": ["other.csv", 1, 1], "text": ["text"], "group_size": null}\n')
    assert predict_file(predictor, source, tmp_path / "out.csv").rows == 1


def test_two_runs_at_once_do_not_write_the_same_file(predictor, tmp_path, monkeypatch):
    source = write(tmp_path / "in.csv", [{"id": i, "text": text} for i, text in enumerate(TEXTS)])
    whole, said = predictor.runtime.logits, []

    def second_run(batch, group_size):
        monkeypatch.setattr(predictor.runtime, "logits", whole)
        with pytest.raises(ValueError, match="another run is writing") as error:
            predict_file(predictor, source, tmp_path / "out.csv")
        said.append(error)
        return whole(batch, group_size)

    monkeypatch.setattr(predictor.runtime, "logits", second_run)
    assert predict_file(predictor, source, tmp_path / "out.csv").rows == len(TEXTS)
    assert said
    assert [row["id"] for row in rows_of(tmp_path / "out.csv")] == [str(i) for i in range(len(TEXTS))]


def test_where_files_cannot_be_locked_nobody_is_kept_out(predictor, tmp_path, monkeypatch):
    import fcntl

    def no_locks(handle, how):
        raise OSError(38, "Function not implemented")

    source = write(tmp_path / "in.csv", [{"text": text} for text in TEXTS])
    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert predict_file(predictor, source, tmp_path / "out.csv").rows == len(TEXTS)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert predict_file(predictor, source, tmp_path / "out.csv").rows == len(TEXTS)


def test_a_model_that_was_trained_again_is_another(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("weights")
    before = identity(tmp_path)
    (tmp_path / "teacher-logits.pt").write_text("kept for its students")
    (tmp_path / "eval.json").write_text("a record")
    assert identity(tmp_path) == before
    (tmp_path / "model.safetensors").write_text("other weights")
    assert identity(tmp_path) != before


def test_the_classifier_behind_a_frozen_model_counts_too(tmp_path):
    base, model = tmp_path / "base", tmp_path / "model"
    for folder, config in ((base, {}), (model, {"base_model": str(base)})):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "model.safetensors").write_text("weights")
    before = identity(model), fingerprint_of(str(model))
    assert fingerprint_of(str(model)) == before[1]
    (base / "model.safetensors").write_text("other weights")
    assert identity(model) != before[0]
    assert fingerprint_of(str(model)) != before[1]


def test_strange_line_breaks_lose_no_row(predictor, tmp_path):
    texts = ["good\u2028film", "bad\x85plot", "the a"]
    source = write(tmp_path / "in.jsonl", [{"text": text} for text in texts])
    journal = tmp_path / "out.jsonl.part"
    predict_file(predictor, source, tmp_path / "first.jsonl")
    about = {
        "source": [str(source), source.stat().st_size, source.stat().st_mtime],
        "text": ["text"],
        "group_size": None,
        "prefix": "predicted_",
    }
    kept = [{"n": 1, "out": {"text": texts[0]}}, {"n": 2, "out": {"text": texts[1]}}]
    journal.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (about, *kept)))
    assert predict_file(predictor, source, tmp_path / "out.jsonl").resumed_after == 2
    assert [row["text"] for row in rows_of(tmp_path / "out.jsonl")] == texts
    journal.write_text('{"sour')
    assert predict_file(predictor, source, tmp_path / "out.jsonl").resumed_after == 0


def test_stdin_is_never_gone_on_with(predictor, tmp_path, monkeypatch):
    (tmp_path / "out.jsonl.part").write_text('{"source": ["-"], "text": ["text"], "group_size": null}\n{"n": 1}\n')
    monkeypatch.setattr("sys.stdin", io.StringIO("good\n"))
    with pytest.raises(ValueError, match="stdin"):
        predict_file(predictor, STDIN, tmp_path / "out.jsonl")


@pytest.mark.parametrize("from_stdin", [False, True])
def test_the_command_says_how_to_go_on(tmp_path, monkeypatch, from_stdin):
    """What came from a pipe cannot be read again, so there nothing is promised."""
    source = write(tmp_path / "in.jsonl", [{"text": text} for text in TEXTS])
    model = datamux.load("sentiment")

    def interrupted(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(model.runtime), "logits", interrupted)
    source = STDIN if from_stdin else source
    command = ["predict", "sentiment", str(source), "-o", str(tmp_path / "out.jsonl"), "--quiet"]
    done = CliRunner().invoke(app, command, input="\n".join(TEXTS))
    assert done.exit_code == 130
    assert not (tmp_path / "out.jsonl").exists()
    assert ("run the same command again to continue where it stopped" in done.output) != from_stdin
