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
