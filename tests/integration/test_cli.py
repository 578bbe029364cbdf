"""The command line, driven as a user would: through a subprocess."""

import json
import os
import subprocess
import sys

from datamux import DEMULTIPLEXERS, MULTIPLEXERS
from datamux.multiplexers import IMAGE_MULTIPLEXERS


def datamux(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "datamux.cli", *arguments]
    wide = os.environ | {"COLUMNS": "250"}  # tables are not broken into lines
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=wide)


def test_help_lists_the_commands():
    done = datamux("--help")
    assert done.returncode == 0
    for command in ("demo", "ls"):
        assert command in done.stdout


def test_ls_lists_the_registries():
    multiplexers = MULTIPLEXERS | IMAGE_MULTIPLEXERS
    for kind, table in (("multiplexers", multiplexers), ("demultiplexers", DEMULTIPLEXERS)):
        rows = json.loads(datamux("ls", kind, "--json").stdout)
        shown = datamux("ls", kind).stdout
        assert [row["name"] for row in rows] == list(table)
        assert all(row["what"] for row in rows)
        assert all(name in shown for name in table)


def test_bad_input_is_one_line_and_exit_code_2():
    done = datamux("ls", "multiplexer")
    assert done.returncode == 2
    assert "multiplexers" in done.stderr
    assert "Traceback" not in done.stderr


def test_demo_answers_texts_and_measures(tmp_path):
    texts = ("A wonderful film, and a joy from start to end.", "A terrible film, dull and stupid.")
    plot = tmp_path / "demo.png"
    done = datamux("demo", *texts, "--json", "--rounds", "1", "--seconds", "0.05", "--plot", str(plot))
    sentiment, ner = json.loads(done.stdout)
    assert plot.stat().st_size > 10_000
    assert sentiment["texts"] == ner["texts"] == list(texts)
    for answers in (sentiment["plain"], sentiment["mixed"]):
        assert [answer["label"] for answer in answers] == ["positive", "negative"]
    for model in (sentiment, ner):
        assert [row["group_size"] for row in model["speeds"]] == [1, 5, 10, 20]
        assert all(row["lowest"] <= row["ratio"] <= row["highest"] for row in model["speeds"])


def test_demo_shows_tables(tmp_path):
    done = datamux("demo", "--rounds", "1", "--seconds", "0.05", "--plot", str(tmp_path / "demo.png"))
    for shown in ("sentiment", "ner", "London (LOC)", "20 a pass", "against plain", "datamux predict"):
        assert shown in done.stdout


TINY = ("--layers", "1", "--hidden", "16", "--heads", "2", "-k", "2", "-k", "3")
QUICK = ("--rounds", "1", "--seconds", "0.01", "--samples", "12", "--lengths", "fixed:8")


def test_bench_speed_shows_keeps_and_draws(tmp_path):
    record, plot = tmp_path / "kept" / "speed.json", tmp_path / "speed.png"
    done = datamux("bench", "speed", *TINY, *QUICK, "--also", "1x8", "--record", str(record), "--plot", str(plot))
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
        "--bypass",
        "--demultiplexer",
        "gate",
        "--json",
    )
    found = json.loads(datamux("bench", "speed", *TINY, *QUICK, *options).stdout)
    assert [row["name"] for row in found["results"]] == [
        "plain, torch",
        "gate, 2 a pass, torch",
        "gate, 3 a pass, torch",
    ]
    assert found["settings"]["shape"]["token_level"]
    assert found["settings"]["bypass"]
    done = datamux("bench", "speed", *TINY, *QUICK, "--also", "64")
    assert (done.returncode, "LAYERSxHIDDEN" in done.stderr) == (2, True)


def test_bench_memory_and_parts(tmp_path):
    memory, parts = tmp_path / "memory.json", tmp_path / "parts.json"
    size = ("--tokens", "8", "--groups", "4")
    shown = datamux("bench", "memory", *TINY, *size, "--rounds", "1", "--record", str(memory)).stdout.splitlines()
    points = json.loads(memory.read_text())["results"]
    assert [line.split()[0] for line in shown[1:]] == ["2", "3"]
    assert [line.split()[3] for line in shown[1:]] == [f"{point['ratio']:.2f}x" for point in points]
    shown = datamux("bench", "parts", *TINY, *size, "--bf16", "--record", str(parts)).stdout.splitlines()
    rows = json.loads(parts.read_text())["results"]
    assert "mixing, ms" in shown[0]
    assert [line.split()[2] for line in shown[1:]] == [f"{row['encoder']:.3f}" for row in rows]
    found = json.loads(datamux("bench", "parts", *TINY, *size, "--json").stdout)
    assert (found["kind"], len(found["results"])) == ("parts", 2)


def test_bench_refuses_what_makes_no_sense():
    for wrong, said in (
        (("speed", "--samples", "-5"), "--samples"),
        (("memory", "-k", "0"), "-k"),
        (("memory", "--demultiplexer", "gat"), "unknown demultiplexer 'gat'"),
        (("speed", "--demultiplexer", "gat"), "unknown demultiplexer 'gat'"),
        (("parts", "--heads", "3"), "--heads 3"),
        (("parts", "--texts"), "--model"),
    ):
        done = datamux("bench", *wrong)
        assert done.returncode == 2, wrong
        assert said in done.stderr
        assert "Traceback" not in done.stderr
