"""The command line, driven as a user would. Each command runs once in a process of its own, the rest in this one."""

import json
import runpy
import subprocess
from pathlib import Path

import pytest
from transformers import BertConfig, BertModel

from command_line import command
from command_line import run as datamux
from datamux import DEMULTIPLEXERS, MULTIPLEXERS
from datamux.cli import app
from datamux.multiplexers import IMAGE_MULTIPLEXERS

ROOT = Path(__file__).parents[2]
TINY = ("--layers", "1", "--hidden", "16", "--heads", "2", "-k", "2", "-k", "3")
QUICK = ("--rounds", "1", "--seconds", "0.01", "--samples", "12", "--lengths", "fixed:8")
SHORT = ("--rounds", "1", "--seconds", "0.01", "--max-seconds", "0.1")
ONE_SIZE = (*TINY[:6], "-k", "2")

# A short real call of every command; {} is a folder with a model, rows.csv and recipe.toml.
CALLS = {
    "demo": f"demo {' '.join(SHORT)}",
    "train": "train {}/recipe.toml --train {}/rows.csv -o {}/run",
    "evaluate": "evaluate {}/model --task {}/rows.csv",
    "predict": "predict {}/model {}/rows.csv -o {}/answers.csv --quiet",
    "export": "export {}/model -o {}/exported",
    "frontier": "frontier {}/rows.csv -m {}/model -k 1 -k 2 --rounds 1 --seconds 0.01 --groupings 1",
    "audit": "audit {}/model --data {}/rows.csv --quick",
    "tune": "tune --train {}/many.csv --encoder {}/encoder --budget 10s --engine torch --family words -o {}/best",
    "explain": "explain {}/model film",
    "reproduce": "reproduce --list",
    "ls": "ls multiplexers",
    "serve keys add": "serve keys add ann --keys {}/new.json",
    "serve keys list": "serve keys list --keys {}/keys.json",
    "serve keys remove": "serve keys remove ann --keys {}/keys.json",
    "bench soak": "bench soak {}/model --texts 20 --clients 2 --tenants 2 --batch 2",
    "bench cluster": "bench cluster {}/model -k 2 --rows 40 --more-rows 60 --workers 1 --rounds 1 --data-dir {}",
    "bench speed": f"bench speed {' '.join((*ONE_SIZE, *QUICK))}",
    "bench memory": f"bench memory {' '.join(ONE_SIZE)} --tokens 8 --groups 4 --rounds 1",
    "bench breakdown": f"bench breakdown {' '.join(ONE_SIZE)} --tokens 8 --groups 4",
}
# Slow: those that take long, and those that another test runs in a process of its own (to kill it, to pipe into it).
SLOW = {"demo", "export", "bench memory", "bench soak", "bench cluster", "train", "tune"}
SLOW |= {"audit", "frontier", "bench speed", "bench breakdown"}  # the tests of these run them in this process, too
# These run in processes of their own elsewhere: test_serve_server.py and test_serve_load.py.
ELSEWHERE = {"serve run", "bench serve"}
RECIPE = """[model]
layers = 1
hidden = 16
heads = 2
vocab_size = 60
num_instances = 2
[task]
steps = 1
groups = 2
[run]
bf16 = false
"""


def test_every_command_has_a_short_call():
    listed = runpy.run_path(str(ROOT / "scripts/commands.py"))["commands"](app)
    assert sorted({*CALLS, *ELSEWHERE}) == sorted(name.removeprefix("datamux ") for name, _ in listed)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CALLS]
)
def test_a_command_in_its_own_process(predictor, tmp_path, name):
    """Nothing is imported yet, and the exit code is the one a shell would see."""
    (tmp_path / "rows.csv").write_text("text,label\n" + "good film,pos\nbad film,neg\n" * 6)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "sst2").mkdir()
    for split in ("train", "validation", "test"):
        (tmp_path / "sst2" / f"{split}.csv").write_text(
            "sentence,label\n" + "a good old film,1\na bad new film,0\n" * 6
        )
    (tmp_path / "many.csv").write_text(
        "text,label\n" + "".join(f"{w} film {i},{w}\n" for i in range(60) for w in ("good", "bad"))
    )
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20}
    tokenizer = predictor.texts.tokenizer
    BertModel(BertConfig(vocab_size=len(tokenizer), **small)).save_pretrained(tmp_path / "encoder")
    tokenizer.save_pretrained(tmp_path / "encoder")
    (tmp_path / "keys.json").write_text('{"keys": [{"name": "ann", "sha256": "0", "created": "today"}]}')
    words = command(*CALLS[name].replace("{}", str(tmp_path)).split())
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert name == "predict" or done.stdout
    assert "Traceback" not in done.stderr


def test_bad_input_ends_a_process_with_exit_code_2():
    done = subprocess.run(command("ls", "multiplexer"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "multiplexers" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_lists_the_commands():
    done = datamux("--help")
    assert done.returncode == 0
    for name in CALLS:
        assert name.split()[0] in done.stdout


def test_ls_lists_the_registries():
    multiplexers = MULTIPLEXERS | IMAGE_MULTIPLEXERS
    for kind, table in (("multiplexers", multiplexers), ("demultiplexers", DEMULTIPLEXERS)):
        rows = json.loads(datamux("ls", kind, "--json").stdout)
        shown = datamux("ls", kind).stdout
        assert [row["name"] for row in rows] == list(table)
        assert all(row["what"] for row in rows)
        assert all(name in shown for name in table)


def test_demo_answers_texts_and_measures(tmp_path):
    texts = ("A wonderful film, and a joy from start to end.", "A terrible film, dull and stupid.")
    plot = tmp_path / "demo.png"
    done = datamux("demo", *texts, "--json", *SHORT, "--plot", str(plot))
    sentiment, ner = json.loads(done.stdout)
    assert plot.stat().st_size > 10_000
    assert sentiment["texts"] == ner["texts"] == list(texts)
    for answers in (sentiment["plain"], sentiment["mixed"]):
        assert [answer["label"] for answer in answers] == ["positive", "negative"]
    for model, sizes in ((sentiment, [1, 5, 10, 20]), (ner, [1, 5, 10])):
        assert [row["group_size"] for row in model["speeds"]] == sizes
        assert all(row["lowest"] <= row["ratio"] <= row["highest"] for row in model["speeds"])


def test_demo_shows_tables(tmp_path):
    done = datamux("demo", *SHORT, "--plot", str(tmp_path / "demo.png"))
    for shown in ("sentiment", "ner", "London (LOC)", "20 per pass", "against plain", "datamux predict"):
        assert shown in done.stdout


def test_bench_speed_shows_keeps_and_draws(tmp_path):
    record, plot = tmp_path / "kept" / "speed.json", tmp_path / "speed.png"
    done = datamux("bench", "speed", *TINY, *QUICK, "--plain-size", "1x8", "--record", str(record), "--plot", str(plot))
    assert done.returncode == 0, done.stderr
    kept = json.loads(record.read_text())
    assert [row["group_size"] for row in kept["results"]] == [1, 1, 2, 3, 2, 3]
    lines = done.stdout.splitlines()
    for line, row in zip(lines[1:], kept["results"], strict=True):
        assert line.startswith(row["name"])
        assert f"{row['ratio']:.2f}x ({row['lowest']:.2f} to {row['highest']:.2f})" in line
        share = f"{row['ratio'] / row['group_size']:.0%}"
        assert (share in line.split()) == (row["group_size"] > 1)
    assert plot.stat().st_size > 10_000


def test_bench_speed_prints_json():
    options = (
        "--tagging",
        "--hidden-dim",
        "20",
        "--head-context",
        "1",
        "--demultiplexer",
        "gate",
        "--json",
    )
    found = json.loads(datamux("bench", "speed", *TINY, *QUICK, *options).stdout)
    assert [row["name"] for row in found["results"]] == [
        "plain, torch",
        "gate, 2 per pass, torch",
        "gate, 3 per pass, torch",
    ]
    assert found["settings"]["shape"]["token_level"]
    done = datamux("bench", "speed", *TINY, *QUICK, "--plain-size", "64")
    assert (done.returncode, "LAYERSxHIDDEN" in done.stderr) == (2, True)


SIZE = ("--tokens", "8", "--groups", "4")


def test_bench_memory(tmp_path):
    record = tmp_path / "memory.json"
    shown = datamux("bench", "memory", *ONE_SIZE, *SIZE, "--rounds", "1", "--record", record).stdout.splitlines()
    points = json.loads(record.read_text())["results"]
    assert [line.split()[0] for line in shown[1:]] == ["2"]
    assert [line.split()[3] for line in shown[1:]] == [f"{point['ratio']:.2f}x" for point in points]


def test_bench_breakdown(tmp_path):
    record = tmp_path / "breakdown.json"
    shown = datamux("bench", "breakdown", *TINY, *SIZE, "--bf16", "--record", record).stdout.splitlines()
    rows = json.loads(record.read_text())["results"]
    assert "mixing, ms" in shown[0]
    assert [line.split()[2] for line in shown[1:]] == [f"{row['encoder']:.3f}" for row in rows]
    found = json.loads(datamux("bench", "breakdown", *TINY, *SIZE, "--json").stdout)
    assert (found["kind"], len(found["results"])) == ("breakdown", 2)


def test_bench_refuses_what_makes_no_sense():
    for wrong, said in (
        (("speed", "--samples", "-5"), "--samples"),
        (("memory", "-k", "0"), "-k"),
        (("memory", "--demultiplexer", "gat"), "unknown demultiplexer 'gat'"),
        (("speed", "--demultiplexer", "gat"), "unknown demultiplexer 'gat'"),
        (("breakdown", "--heads", "3"), "--heads 3"),
        (("breakdown", "--texts"), "--model"),
    ):
        done = datamux("bench", *wrong)
        assert done.returncode == 2, wrong
        assert said in done.stderr
        assert "Traceback" not in done.stderr
