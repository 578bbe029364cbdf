"""`datamux bench serve` with real servers and the real load generator, for a few seconds."""

import json
import subprocess
from importlib.util import find_spec

import pytest

from command_line import command
from datamux.serve.background import running
from datamux.serve.load.bench import Plan, run_serve
from datamux.serve.load.wall import OUTSIDE, PASS, QUEUE, SERVER, TOKENISING
from serving import make_predictor, make_service

# To import locust here would change the sockets of all tests.
pytestmark = pytest.mark.skipif(find_spec("locust") is None, reason="locust is not installed")


@pytest.mark.slow
def test_servers_are_loaded_in_turn_and_all_answers_are_counted(tmp_path):
    make_predictor(tmp_path / "mixed", slots=4)
    make_predictor(tmp_path / "plain", slots=1)
    (tmp_path / "texts.txt").write_text("good film\n\nthe plot was very bad .\n")
    words = command("bench", "serve", tmp_path / "mixed", "--plain", tmp_path / "plain", "--texts", "texts.txt")
    words += ["--users", "1", "--users", "4", "--batch", "1", "--batch", "6", "--rounds", "2", "--seconds", "0.2"]
    words += ["--threads", "1", "--profile", "--record", "serve.json", "--plot", "serve.png"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "Throughput of the whole server" in done.stdout
    assert (tmp_path / "serve.png").exists()
    record = json.loads((tmp_path / "serve.json").read_text())
    names = ["plain", "multiplexed", "always 4 per pass"]
    assert record["settings"]["servers"] == names
    assert [(s["round"], s["texts_per_request"], s["users"], s["server"]) for s in record["steps"]] == [
        (number, batch, users, name) for number in (0, 1) for batch in (1, 6) for users in (1, 4) for name in names
    ]
    for step in record["steps"]:
        assert step["errors"] == 0
        assert step["requests"] > 0
        assert step["texts"] == step["requests"] * step["texts_per_request"]
        assert 0 < step["p50"] <= step["p95"] <= step["p99"]
        assert step["generator_cores"] > 0
        assert step["server_cores"] > 0
        assert set(step["gears"]) <= {"plain", "mux-1", "mux-2", "mux-4"}
        # The server is asked a moment before and after. The one answer per user that is on its way when it is asked
        # first is counted there before the step, and by the user within it; all others are counted in both.
        on_their_way = step["users"] * step["texts_per_request"]
        assert sum(step["gears"].values()) >= step["texts"] - on_their_way
    full = [step for step in record["steps"] if step["server"] == names[2]]
    assert all(set(step["gears"]) == {"mux-4"} for step in full)
    assert len(record["summary"]) == 6
    profile = record["profile"]
    assert set(profile["server"]["microseconds"]) == {"event loop", "tokenising", "model"}
    assert set(profile["server"]["busy"]) == {"event loop", "tokenising", "model"}
    clocked = sum(profile["server"]["busy"].values())
    assert 0 < clocked <= profile["server"]["cores"] + 0.01
    assert profile["parts"][-1]["thread"] == "other threads"
    assert sum(part["share"] for part in profile["parts"]) == pytest.approx(1)
    assert profile["bare_http"]["requests_per_second"] > 0
    wall = profile["server"]["wall"]
    assert {OUTSIDE, SERVER, TOKENISING, QUEUE, PASS} == set(wall["milliseconds"])
    assert all(spent >= 0 for spent in wall["milliseconds"].values())
    assert wall["milliseconds"][PASS] > 0
    assert 0 < wall["pass_share"] <= 1
    assert wall["texts_per_pass"] >= 1
    assert "By the clock, a request takes" in done.stdout


def test_a_running_server_is_measured_with_its_errors(tmp_path):
    (tmp_path / "texts.txt").write_text("good film\n")
    plan = Plan(batches=(1,), users=(2,), rounds=1, seconds=0.3, texts=tmp_path / "texts.txt")
    service = make_service(make_predictor(tmp_path / "model"), max_body_bytes=10)
    with running(service) as url:
        record = run_serve(Plan(**vars(plan) | {"url": f"{url}/"}))
    (step,) = record["steps"]
    assert step["server"] == "running server"
    assert step["requests"] == 0
    assert step["errors"] > 0
    assert set(step["problems"]) == {"status 413"}
    assert (step["p95"], step["server_cores"]) == (None, None)
    assert record["summary"][0]["saturation_ratio"] is None
