"""The command line, driven as a user would: through a subprocess."""

import json
import subprocess
import sys

from datamux import DEMULTIPLEXERS, MULTIPLEXERS
from datamux.multiplexers import IMAGE_MULTIPLEXERS


def datamux(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "datamux.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


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


def test_demo_measures_accuracy_and_speed():
    rows = json.loads(datamux("demo", "--json", "--steps", "1500").stdout)
    assert [row["images_a_pass"] for row in rows] == [1, 2, 4, 8]
    accuracy = [row["accuracy"] for row in rows]
    assert accuracy[0] > 0.9
    assert accuracy[1] > 0.8
    assert accuracy[2] > 0.6
    assert accuracy[3] > 0.4
    for row in rows:
        assert row["images_a_second"] > 0
        assert row["ratio_lowest"] <= row["ratio"] <= row["ratio_highest"]
