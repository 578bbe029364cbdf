"""A job that is started again: a worker of an earlier run may still be at work, and no row is lost or there twice."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest
from predicting import MANY, rows_of, write

from datamux.cluster import file_job
from datamux.cluster.file_job import predict_files
from datamux.cluster.manifest import Settings, begin_plan, fingerprint_of, open_plan, take_over
from datamux.cluster.names import part_of
from datamux.cluster.shards import plan_shards
from datamux.cluster.sources import find_files
from datamux.cluster.storage import OutputFolder
from datamux.cluster.worker import ShardWorker

ROWS = 30
SIZE = 300
NAMES = ["0.csv", "1.csv", "2.csv", "3.csv", "4.parquet"]


class OneMachine:
    """Stands for Ray, with room for one worker."""

    def cluster_resources(self):
        return {"CPU": 1.0}

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": 1.0}}]


@pytest.fixture
def job(predictor, tmp_path, monkeypatch):
    """A source, an output folder and settings; shards are answered in this process."""

    def run(ray, shards, folder, settings, workers, plan, run):
        here = ShardWorker(settings, folder.url, plan=plan, run=run, prepared=predictor)
        for shard in shards:
            yield shard, here.answer(shard)

    monkeypatch.setattr(file_job, "_run", run)
    starting(monkeypatch, lambda: None)
    source = write(tmp_path / "in.jsonl", [{"id": i, "text": MANY[i]} for i in range(ROWS)])
    model = str(tmp_path / "model")
    settings = Settings(model, group_size=1, format="jsonl", fingerprint=fingerprint_of(model))
    return str(source), str(tmp_path / "out"), settings


def starting(monkeypatch, meanwhile):
    """While Ray starts, something else happens."""

    @contextmanager
    def session(address):
        meanwhile()
        yield OneMachine()

    monkeypatch.setattr(file_job, "ray_session", session)


def killed_run(job, predictor):
    """What a run leaves that was killed before any shard was done: a worker that goes on, and its first shard."""
    source, out, settings = job
    output, files = OutputFolder(out), find_files(source)
    plan = begin_plan(output, settings, files, plan_shards(files, SIZE), SIZE)
    take_over(output, "first", plan.id)
    return ShardWorker(settings, output.url, plan=plan.id, run="first", prepared=predictor), plan.shards


def check_complete(out):
    found = [row["id"] for part in sorted(OutputFolder(out).local.glob("part-*")) for row in rows_of(part)]
    assert found == list(range(ROWS)), "every row once, in order"


def test_a_worker_of_a_killed_run_ends_its_first_shard_while_ray_starts(job, predictor, monkeypatch):
    source, out, settings = job
    worker, shards = killed_run(job, predictor)
    answered = []
    starting(monkeypatch, lambda: answered.append(worker.answer(shards[0])))
    done = predict_files(source, out, settings, shard_bytes=SIZE)
    assert answered
    assert done.rows == ROWS
    check_complete(out)


def test_it_ends_a_shard_of_a_job_whose_mistake_is_corrected(job, predictor, monkeypatch):
    """The folder then has work of another job, which must be neither lost nor taken for this job's."""
    source, out, settings = job
    worker, shards = killed_run(job, predictor)
    starting(monkeypatch, lambda: worker.answer(shards[0]))
    with pytest.raises(ValueError, match="was begun with another prefix"):
        predict_files(source, out, replace(settings, prefix="answer_"))
    assert predict_files(source, out, settings).rows == ROWS
    check_complete(out)


@pytest.mark.parametrize("when", ["before the plan", "with the plan"])
def test_it_publishes_after_another_run_has_cut_the_input_otherwise(job, predictor, monkeypatch, when):
    """Between its check and what it publishes, a worker may take as long as it likes."""
    source, out, settings = job
    worker, shards = killed_run(job, predictor)
    output, publish, late = OutputFolder(out), worker.output.publish, []

    def publish_late(file, name):
        if name.startswith("part-") and not late:
            late.append(name)
            if when == "before the plan":
                take_over(output, "second")
            else:
                assert predict_files(source, out, settings, shard_bytes=2 * SIZE).rows == ROWS
        publish(file, name)

    monkeypatch.setattr(worker.output, "publish", publish_late)
    assert worker.answer(shards[0])["stop"]
    assert late
    assert len(output.names("_job/done")) == (when == "with the plan")
    if when == "before the plan":
        assert predict_files(source, out, settings, shard_bytes=2 * SIZE).rows == ROWS
    check_complete(out)
    assert predict_files(source, out, settings).resumed_after > 0


def test_what_a_worker_leaves_that_is_killed_after_its_part_is_removed(job, predictor):
    source, out, settings = job
    _, shards = killed_run(job, predictor)
    output = OutputFolder(out)
    plan = open_plan(output, settings, find_files(source))
    output.publish(b'{"id": 0}\n', part_of(plan.id, shards[0].name, "jsonl"))
    predict_files(source, out, settings, shard_bytes=2 * SIZE)
    check_complete(out)


def test_a_job_goes_on_after_each_shard(job, predictor, monkeypatch):
    """Killed after every shard in turn, and started again: nothing is done twice."""
    source, out, settings = job
    answered, run = [], file_job._run

    def one(*given):
        shard, about = next(run(*given))
        answered.append(shard.number)
        yield shard, about
        raise KeyboardInterrupt

    monkeypatch.setattr(file_job, "_run", one)
    for number in range(50):
        try:
            done = predict_files(source, out, settings, shard_bytes=SIZE)
            break
        except KeyboardInterrupt:
            assert len(answered) == number + 1
    assert answered == list(range(done.shards))
    assert done.rows == ROWS
    check_complete(out)


def test_a_folder_of_another_version_is_refused(job):
    source, out, settings = job
    OutputFolder(out).publish(json.dumps({"about": {}, "shards": []}).encode(), "_job/manifest.json")
    with pytest.raises(ValueError, match="begun by another version of datamux"):
        predict_files(source, out, settings)


def test_a_few_bad_files_do_not_stop_the_job(job, tmp_path):
    _, out, settings = job
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.csv").write_text("other\nx\n")
    (folder / "4.parquet").write_bytes(b"no parquet")
    with pytest.raises(ValueError, match=r"0\.csv, column 'text': no such column; there are: other"):
        predict_files(str(folder), out, settings)
    write(folder / "5.jsonl", [{"id": i, "text": MANY[i]} for i in range(ROWS)])
    done = predict_files(str(folder), out, settings)
    assert (done.rows, done.shards, len(done.failed)) == (ROWS, 6, 5)
    listed = [json.loads(line) for line in (tmp_path / "out/_errors/failed-shards.jsonl").open()]
    assert [one["file"] for one in listed] == [(folder / name).as_uri() for name in NAMES]
    assert all(one["problem"].startswith(one["file"]) for one in listed)
    check_complete(out)


def test_a_job_of_which_every_shard_fails_is_an_error(job, monkeypatch):
    source, out, settings = job

    def fail(self, shard, folder):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(ShardWorker, "_answer", fail)
    with pytest.raises(ValueError, match=r"in\.jsonl: RuntimeError: out of memory \(all \d+ shards failed\)"):
        predict_files(source, out, settings, shard_bytes=SIZE)
    failed = OutputFolder(out).local / "_errors/failed-shards.jsonl"
    assert len(failed.read_text().splitlines()) > 1


def test_the_list_of_failed_shards_goes_when_they_are_answered(job, monkeypatch):
    source, out, settings = job
    answer, failed = ShardWorker._answer, OutputFolder(out).local / "_errors/failed-shards.jsonl"

    def fail_once(self, shard, folder):
        if shard.number == 1 and not failed.exists():
            raise RuntimeError("out of memory")
        return answer(self, shard, folder)

    monkeypatch.setattr(ShardWorker, "_answer", fail_once)
    assert len(predict_files(source, out, settings, shard_bytes=SIZE).failed) == 1
    listed = failed.read_text()
    assert not predict_files(source, out, settings, shard_bytes=SIZE).failed
    assert not failed.exists()
    check_complete(out)
    failed.write_text(listed)  # as a run leaves it that was killed after its last shard
    assert not predict_files(source, out, settings, shard_bytes=SIZE).failed
    assert not failed.exists()
