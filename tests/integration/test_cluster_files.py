"""`datamux predict --engine ray`: real workers, two nodes, and what happens when a node or the driver is killed."""

import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from clusters import two_nodes
from predicting import MANY, rows_of, write

from command_line import command
from datamux.cluster.cutting import cut_out
from datamux.cluster.file_job import predict_files
from datamux.cluster.manifest import Settings, fingerprint_of
from datamux.cluster.shards import plan_shards
from datamux.cluster.sources import find_files
from datamux.cluster.workers import Workers
from datamux.inference.files import predict_file
from serving import eventually

ROWS = 1500
SHARD = 2000  # bytes

pytestmark = pytest.mark.slow


@pytest.fixture
def job(predictor, tmp_path):
    """A folder of JSON lines with bad rows, the answers of the local engine, and the settings."""
    rows = [{"id": i, "text": f"{MANY[i % 30]} {'good ' * (i % 7)}", "note": f"ä{i}"} for i in range(ROWS)]
    for name, some in (("a", rows[:700]), ("b", rows[700:])):
        (tmp_path / "in").mkdir(exist_ok=True)
        write(tmp_path / "in" / f"{name}.jsonl", some)
    with (tmp_path / "in/a.jsonl").open("a") as lines:
        lines.write("no json\n")
    whole = []
    for name in ("a", "b"):
        predict_file(predictor, tmp_path / f"in/{name}.jsonl", tmp_path / f"{name}.jsonl", group_size=1)
        whole += rows_of(tmp_path / f"{name}.jsonl")
    model = str(tmp_path / "model")
    return tmp_path, whole, Settings(model, group_size=1, format="jsonl", fingerprint=fingerprint_of(model))


def test_a_node_dies_in_the_middle(job):
    folder, whole, settings = job
    out, before = folder / "out", []

    def kill(cluster, second):
        before.append(workers_of(out))
        cluster.remove_node(second, allow_graceful=False)
        before.append(workers_of(out))

    with two_nodes() as (cluster, second):
        killer = when(lambda: len(set(workers_of(out))) == 2, lambda: kill(cluster, second))
        done = predict_files(
            str(folder / "in"), str(folder / "out"), settings, Workers(concurrency=2), shard_bytes=SHARD
        )
        killer.join()
    assert done.shards > 40
    assert len(set(before[0])) == 2, "each node has room for one worker, so the one that died had done a shard"
    assert len(before[1]) < done.shards, "and the job was not finished yet"
    assert (done.rows, done.bad, done.failed) == (ROWS, 1, [])
    check_same(parts(folder / "out"), whole)


def test_the_driver_is_killed_and_started_again(job):
    folder, whole, settings = job
    words = command("predict", settings.model, folder / "in", "-o", folder / "out", "-k", 1, "--engine", "ray")
    words += ["--concurrency", "1", "--format", "jsonl", "--shard-mb", str(SHARD / (1 << 20))]
    first = subprocess.Popen(words, start_new_session=True)
    try:
        when(lambda: len(marks(folder / "out")) >= 5, lambda: os.kill(first.pid, signal.SIGKILL)).join()
        first.wait(30)
    finally:
        first.kill()
    finished = len(marks(folder / "out"))
    assert 5 <= finished < 40, "it was killed in the middle"
    assert eventually(lambda: not alive(first.pid), 120), "Ray ends with the driver that started it"
    second = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert second.returncode == 0, second.stderr
    assert "continued after" in second.stderr
    assert f"{ROWS} rows answered" in second.stderr
    assert "1 bad rows" in second.stderr
    check_same(parts(folder / "out"), whole)
    (folder / "in/c.jsonl").write_text('{"text": "good film"}\n')
    third = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert third.returncode == 2
    assert "was begun with another source" in third.stderr


def test_larger_groups_and_parquet(job, predictor):
    """The answers are those of the local engine for each shard by itself: neighbours are those of the shard."""
    folder, _, settings = job
    import ray

    source = folder / "in.parquet"
    write(source, [json.loads(line) for line in (folder / "in/b.jsonl").read_text().splitlines()])
    grouped = Settings(settings.model, group_size=3, format="parquet", fingerprint=settings.fingerprint)
    try:
        done = predict_files(str(source), str(folder / "out"), grouped, Workers(concurrency=1), shard_bytes=4000)
        assert not ray.is_initialized(), "it stops the Ray that it has started"
    finally:
        ray.shutdown()
    assert done.shards > 1
    found = [row for part in sorted((folder / "out").glob("part-*.parquet")) for row in rows_of(part)]
    assert [row["id"] for row in found] == list(range(700, ROWS))
    expected = []
    for shard in plan_shards(find_files(str(source)), 4000):
        piece = cut_out(shard, folder)
        predict_file(predictor, piece, folder / "piece.parquet", group_size=3)
        expected += rows_of(folder / "piece.parquet")
    check_same(found, expected)


def test_a_mistake_in_the_command_stops_the_job_at_once(job):
    folder, _, settings = job
    wrong = Settings(settings.model, text=("review",), format="jsonl", fingerprint=settings.fingerprint)
    (folder / "tables").mkdir()
    for number in range(4):
        write(folder / f"tables/{number}.csv", [{"text": "good film"}])
    with pytest.raises(ValueError, match="no such column; there are: text"):
        predict_files(str(folder / "tables"), str(folder / "out"), wrong, Workers(concurrency=1))


def parts(folder):
    return [row for part in sorted(folder.glob("part-*.jsonl")) for row in rows_of(part)]


def check_same(found, expected):
    """The same rows in the same order, and the same answers up to the last digits."""
    assert [row["id"] for row in found] == [row["id"] for row in expected], "every row once, in order"
    for one, other in zip(found, expected, strict=True):
        assert one.pop("predicted_score") == pytest.approx(other.pop("predicted_score"), abs=1e-5)
        assert one == other


def marks(folder):
    """One file for every shard that is done."""
    return list((folder / "_job/done").glob("*/*"))


def workers_of(folder):
    """Who has done each of these shards."""
    return [mark.read_text() for mark in marks(folder)]


def when(condition, act):
    """Call `act` as soon as the condition holds."""

    def wait():
        eventually(condition, 120)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def alive(session):
    """Whether a process of this session still runs."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(state[3]) == session and state[0] != "Z":
            return True
    return False
