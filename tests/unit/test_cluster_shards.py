"""Shards: every row is in exactly one of them, and a worker answers each as `datamux predict` would. No Ray here."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from socket import gethostname

import pyarrow.parquet as parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from predicting import MANY, rows_of, write

from command_line import run
from datamux.cluster import file_job, sources
from datamux.cluster.checking import check_job
from datamux.cluster.cutting import BATCH, cut_out
from datamux.cluster.file_job import JobDone, _advance, _bar, _check_apart, _count, _count_finished, predict_files
from datamux.cluster.manifest import (
    Plan,
    Settings,
    begin_plan,
    fingerprint_of,
    open_plan,
    remove_other_plans,
    take_over,
)
from datamux.cluster.names import bad_rows_of, mark_of, part_of, tries_of
from datamux.cluster.ray_session import ray_session
from datamux.cluster.shards import (
    BYTES,
    LARGEST,
    LARGEST_GROUP,
    ROWS,
    SMALLEST,
    Shard,
    largest_group,
    plan_shards,
    shard_size,
)
from datamux.cluster.sources import SourceFile, find_files
from datamux.cluster.storage import OutputFolder
from datamux.cluster.worker import TRIES, ShardWorker
from datamux.cluster.workers import Workers
from datamux.inference.files import predict_file
from datamux.tasks.formats import FORMATS, json_lines
from datamux.tasks.formats.base import Format
from serving import TAGS, make_predictor

PLAN = "0123abcd"


@settings(deadline=None, max_examples=50)  # a busy machine is slow to write files
@given(
    st.lists(st.sampled_from([b"", b"a", b"\xc3\xa4", b"long line " * 3]), max_size=12),
    st.integers(1, 9),
    st.booleans(),
)
def test_every_line_is_in_exactly_one_range_of_bytes(tmp_path_factory, lines, size, ends):
    folder = tmp_path_factory.mktemp("lines")
    content = b"\n".join(lines) + b"\n" * ends
    (folder / "in.txt").write_bytes(content)
    shards = plan_shards(find_files(str(folder / "in.txt")), size)
    assert b"".join(cut_out(shard, folder).read_bytes() for shard in shards) == content
    for shard in shards:
        piece = cut_out(shard, folder).read_bytes()
        assert not piece or piece.endswith(b"\n") or content.endswith(piece)


@pytest.mark.parametrize("size", [1, 300, 10_000])
@pytest.mark.parametrize("rows_per_group", [1, 7, 100])
def test_every_row_of_a_parquet_file_is_in_exactly_one_shard(tmp_path, size, rows_per_group):
    import pyarrow
    import pyarrow.parquet as parquet

    table = pyarrow.table({"id": pyarrow.array(range(50), pyarrow.int16()), "text": MANY[:25] * 2})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=rows_per_group)
    shards = plan_shards(find_files(str(tmp_path / "in.parquet")), size)
    pieces = [parquet.read_table(cut_out(shard, tmp_path)) for shard in shards]
    assert pyarrow.concat_tables(pieces).equals(table), "with the types, too"
    assert size > 1000 or len(shards) > 1
    assert size < 1000 or rows_per_group > 1 or len(shards) == 1, "small row groups are taken together"


def test_files_without_rows_are_one_shard(tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    (tmp_path / "a.jsonl").write_text("")
    parquet.write_table(pyarrow.table({"text": pyarrow.array([], pyarrow.string())}), tmp_path / "b.parquet")
    (tmp_path / "c.csv").write_text("text\n")
    assert len(plan_shards(find_files(str(tmp_path)), 100)) == 3


def test_a_shard_has_a_sensible_size():
    def size(total, workers):
        return shard_size([SourceFile("a", total, "")], workers)

    assert size(10, 2) == SMALLEST
    assert size(1 << 40, 2) == LARGEST
    assert size(16 << 20, 2) == (2 << 20) + 1


def test_row_groups_stay_whole_unless_they_are_very_large(tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    ids = pyarrow.array(range(60_000), pyarrow.int64())  # 8 bytes of a row, which cannot be compressed much
    parquet.write_table(
        pyarrow.table({"id": ids}), tmp_path / "in.parquet", row_group_size=20_000, use_dictionary=False
    )
    files = find_files(str(tmp_path / "in.parquet"))

    def sizes(*given):
        return [shard.stop - shard.start for shard in plan_shards(files, *given)]

    group = parquet.ParquetFile(tmp_path / "in.parquet").metadata.row_group(0).total_byte_size
    quarter = -(-group // 4)
    assert sizes(quarter) == [5000] * 12, "what the caller chooses"
    assert sizes(quarter, group) == [20_000] * 3
    assert sizes(quarter, 2 * quarter) == [10_000] * 6
    (tmp_path / "out").mkdir()
    piece = cut_out(plan_shards(files, group, group)[0], tmp_path / "out")
    about = parquet.ParquetFile(piece).metadata
    assert max(about.row_group(number).num_rows for number in range(about.num_row_groups)) <= BATCH, "read in batches"


def test_a_small_input_has_work_for_all_workers():
    def group(total, workers):
        return largest_group([SourceFile("a", total, "")], workers)

    assert group(1 << 40, 2) == LARGEST_GROUP
    assert group(64 << 20, 4) == (4 << 20) + 1
    assert group(10, 2) == SMALLEST


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("kind", [".jsonl", ".csv", ".txt"])
def test_compressed_files_are_one_shard_each(predictor, tmp_path, ending, kind):
    import fsspec

    plain = write(tmp_path / f"in{kind}", [{"id": i, "text": MANY[i]} for i in range(30)])
    predict_file(predictor, plain, tmp_path / "whole.jsonl", group_size=1)
    source = tmp_path / f"in{kind}{ending}"
    with fsspec.open(str(source), "wb", compression="infer") as out:
        out.write(plain.read_bytes())
    files = find_files(str(source))
    settings = Settings(str(tmp_path / "model"))
    check_job(files, settings)
    if kind != ".txt":
        with pytest.raises(ValueError, match="no such column; there are: id, text"):
            check_job(files, replace(settings, text=("review",)))
    (shard,) = plan_shards(files, 10)
    about = worker(predictor, tmp_path / "out").answer(shard)
    assert "problem" not in about, about
    assert rows_of(tmp_path / "out" / part_of(PLAN, shard.name, "jsonl")) == rows_of(tmp_path / "whole.jsonl")


def test_a_compressed_file_that_ends_too_early_fails(predictor, tmp_path):
    import gzip

    file = tmp_path / "in.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"text": "good film"}\n' * 1000)[:-20])
    files = find_files(str(file))
    check_job(files, Settings(str(tmp_path / "model")))
    (shard,) = plan_shards(files, 10)
    assert worker(predictor, tmp_path / "out").answer(shard)["problem"].startswith(f"{shard.url}: EOFError")


def test_signs_of_globs_may_be_in_the_name_of_a_file(tmp_path):
    for name in ("a[1].jsonl", "a1.jsonl", "b[1]/c.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")

    def names(source):
        return [Path(url).name for url in (file.url for file in find_files(str(tmp_path / source)))]

    assert names("a[1].jsonl") == ["a[1].jsonl"]
    assert names("a[12].jsonl") == ["a1.jsonl"]
    assert names("b[1]") == ["c.jsonl"]
    with pytest.raises(ValueError, match="lie within each other"):
        _check_apart(str(tmp_path / "b[1]"), str(tmp_path / "b[1]/out"), "jsonl")


def test_a_size_that_a_server_does_not_tell(predictor, tmp_path, monkeypatch):
    """As over http without Content-Length: the file is read as a whole, and not as an empty one."""
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/untold/a.csv", b"text\ngood film\n")
    memory.pipe_file("/untold/b.jsonl", b'{"text": "good film"}\n')
    describe = type(memory).info
    monkeypatch.setattr(type(memory), "info", lambda self, path, **options: describe(self, path) | {"size": None})
    done = 0
    for name in ("a.csv", "b.jsonl"):
        files = find_files(f"memory://untold/{name}")
        check_job(files, Settings(str(tmp_path / "model")))
        (shard,) = plan_shards(files, 10)
        done += worker(predictor, tmp_path / name).answer(shard)["rows"]
    assert done == 2


def test_shards_of_nothing_are_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one byte, got 0"):
        predict_files("in", str(tmp_path), Settings("sentiment"), shard_bytes=0)
    for wrong in (0, -1):
        done = run("predict", "sentiment", "in", "-o", tmp_path, "--engine", "ray", "--shard-mb", wrong)
        assert done.returncode == 2
        assert f"--shard-mb must be more than 0, got {wrong}" in done.stderr


def test_a_folder_a_glob_and_a_file_name_their_files(tmp_path):
    for name in ("a.jsonl", "deep/b.csv", "c.png", "_job/d.jsonl", ".e.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")

    def names(source):
        return [Path(file.url).name for file in find_files(str(source))]

    assert names(tmp_path) == ["a.jsonl", "b.csv"]
    assert names(tmp_path / "a*.jsonl") == ["a.jsonl"]
    assert names(tmp_path / "a.jsonl") == ["a.jsonl"]
    with pytest.raises(ValueError, match="no such file or folder"):
        find_files(str(tmp_path / "missing"))
    with pytest.raises(ValueError, match=r"no file that can be read \(1 files of other kinds\); allowed: .txt"):
        find_files(str(tmp_path / "c.png"))
    with pytest.raises(ValueError, match="known protocols"):
        find_files("nowhere://bucket/in")


def test_links_to_files_are_read(tmp_path):
    """The cache of the Hub holds nothing else. A link changes when its file does."""
    (tmp_path / "in").mkdir()
    real, link = write(tmp_path / "real.jsonl", [{"text": "good film"}]), tmp_path / "in/link.jsonl"
    link.symlink_to(real)
    (tmp_path / "in/folder.jsonl").mkdir()
    for source in (tmp_path / "in/*.jsonl", tmp_path / "in", link):
        (before,) = find_files(str(source))
        assert Path(before.url).name == "link.jsonl"
        assert before.size == real.stat().st_size
        os.utime(real, (1000, real.stat().st_mtime + 10))
        (after,) = find_files(str(source))
        assert after.stamp != before.stamp, source


def test_links_to_folders_are_followed(tmp_path):
    real = tmp_path / "real"
    for folder in (real / "deep", tmp_path / "in"):
        folder.mkdir(parents=True)
    write(real / "deep/a.jsonl", [{"text": "good film"}])
    write(tmp_path / "in/b.jsonl", [{"text": "bad plot"}])
    for link in ("in/linked", "in/again", "in/_hidden", "all"):
        (tmp_path / link).symlink_to(tmp_path / "in" if link == "all" else real)
    for source in ("in", "all"):
        found = [Path(file.url.removeprefix("file://")) for file in find_files(str(tmp_path / source))]
        expected = ["again/deep/a.jsonl", "b.jsonl", "linked/deep/a.jsonl"]
        assert [str(file.relative_to(tmp_path / source)) for file in found] == expected
        assert all(file.exists() for file in found)


def test_a_link_to_a_folder_that_contains_it_is_refused(tmp_path):
    """Otherwise it would be followed without end."""
    for folder in ("in/a", "in/b"):
        (tmp_path / folder).mkdir(parents=True)
    for target in ("in", "in/a", "."):
        link = tmp_path / "in/a/back"
        link.symlink_to(tmp_path / target)
        with pytest.raises(ValueError, match="back is a link to a folder that contains it"):
            find_files(str(tmp_path / "in"))
        link.unlink()
    (tmp_path / "in/a/to_b").symlink_to(tmp_path / "in/b")
    (tmp_path / "in/b/to_a").symlink_to(tmp_path / "in/a")
    with pytest.raises(ValueError, match="is a link to a folder that contains it"):
        find_files(str(tmp_path / "in"))


def test_a_link_to_a_file_that_is_missing_is_named(tmp_path, caplog):
    write(tmp_path / "a.jsonl", [{"text": "good film"}])
    link = tmp_path / "z.jsonl"
    link.symlink_to(tmp_path / "gone.jsonl")
    for source in (tmp_path, tmp_path / "*.jsonl"):
        with pytest.raises(ValueError, match=r"z\.jsonl is a link to .*gone\.jsonl, which does not exist; remove the"):
            find_files(str(source))
    link.rename(tmp_path / "z.png")
    for source in (tmp_path, tmp_path / "*"):
        assert len(find_files(str(source))) == 1
        assert "files of other kinds are left out: z.png" in caplog.text
        caplog.clear()


def test_a_file_can_come_from_any_file_system(tmp_path):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/reviews/a.jsonl", b'{"text": "good film"}\n')
    (file,) = find_files("memory://reviews")
    (shard,) = plan_shards([file], 100)
    assert cut_out(shard, tmp_path).read_bytes() == b'{"text": "good film"}\n'
    output = OutputFolder("memory://answers")
    output.publish(b"1", "part")
    output.publish(b"[2]", "part")
    assert output.read_json("part") == [2]
    assert output.read_json("nothing") is None
    assert output.names("") == ["_job", "part"]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_parts_are_published_in_a_bucket(predictor, tmp_path, format):
    """Input and output are in a file system that is not this machine's; a shard that is done twice leaves one part."""
    import fsspec

    memory = fsspec.filesystem("memory")
    rows = [{"id": i, "text": MANY[i]} for i in range(20)]
    source = write(tmp_path / "in.jsonl", [*rows, {"id": 20, "text": 7}])
    memory.pipe_file(f"/bucket-{format}/in/a.jsonl", source.read_bytes())
    output = f"memory://bucket-{format}/out"
    for shard in plan_shards(find_files(f"memory://bucket-{format}/in"), 300) * 2:
        about = worker(predictor, output, format=format).answer(shard)
        assert "problem" not in about, about
    found = []
    for name in OutputFolder(output).names(""):
        if name.startswith("part-"):
            memory.get_file(f"/bucket-{format}/out/{name}", str(tmp_path / name))
            found += rows_of(tmp_path / name)
    assert sorted(int(row["id"]) for row in found) == list(range(20))
    assert all(row["predicted_label"] for row in found)
    assert OutputFolder(output).names("_errors"), "the row without a text is kept there"


@pytest.mark.parametrize("kind", [".jsonl", ".parquet", ".csv", ".txt"])
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_the_parts_hold_what_the_local_engine_writes(predictor, tmp_path, kind, format):
    source = write(tmp_path / f"in{kind}", [{"id": i, "text": MANY[i]} for i in range(30)])
    predict_file(predictor, source, tmp_path / f"whole.{format}", group_size=1)
    found = []
    for shard in plan_shards(find_files(str(source)), 300):
        about = worker(predictor, tmp_path / "out", format=format).answer(shard)
        assert "problem" not in about, about
        found += rows_of(tmp_path / "out" / part_of(PLAN, shard.name, format))
    assert found == rows_of(tmp_path / f"whole.{format}")


def test_parts_of_a_tagger_fit_together_if_one_has_no_spans(tmp_path):
    """A column of parquet has one type, which must not depend on what a part happens to hold."""
    tagger = make_predictor(tmp_path / "tagger", "token")
    (tmp_path / "in").mkdir()
    for number, text in enumerate(("...", "anna lives in paris", "...")):
        write(tmp_path / f"in/{number}.jsonl", [{"text": text}])
    tagger.runtime.logits = lambda batch, size: names_only_in_long_texts(batch)
    for shard in plan_shards(find_files(str(tmp_path / "in")), 300):
        about = worker(tagger, tmp_path / "out", format="parquet").answer(shard)
        assert "problem" not in about, about
    parts = sorted((tmp_path / "out").glob("part-*.parquet"))
    assert [len(row["predicted_spans"]) > 0 for part in parts for row in rows_of(part)] == [False, True, False]
    assert len({str(parquet.read_schema(part)) for part in parts}) == 1
    assert len(parquet.read_table(parts)) == 3


def names_only_in_long_texts(batch):
    """The first tag, which is O, for short texts, and the second for all others."""
    rows, tokens = batch["input_ids"].shape
    logits = torch.zeros(rows, tokens, len(TAGS))
    logits[..., 1 if tokens > 5 else 0] = 9.0
    return logits


def test_bad_rows_go_to_the_errors_with_their_file(predictor, tmp_path):
    good = [json.dumps({"id": i, "text": MANY[i]}) for i in range(10)]
    lines = [*good[:5], "no json", '{"other": 1}', '{"other": 2}', '{"text": " "}', *good[5:]]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    whole = predict_file(predictor, tmp_path / "in.jsonl", tmp_path / "whole.jsonl", group_size=1)
    shards = plan_shards(find_files(str(tmp_path / "in.jsonl")), 30)
    done = [worker(predictor, tmp_path / "out").answer(shard) for shard in shards]
    assert (sum(one["rows"] for one in done), sum(one["bad"] for one in done)) == (whole.rows, whole.bad) == (10, 4)
    bad = [json.loads(line) for part in sorted((tmp_path / "out/_errors").iterdir()) for line in part.open()]
    expected = [json.loads(line) for line in (tmp_path / "whole.jsonl.errors.jsonl").open()]
    assert [line["row"] for line in bad] == [line["row"] for line in expected]
    assert [line["problem"] for line in bad] == [line["problem"] for line in expected]
    assert all(line["file"].endswith("in.jsonl") and line["first_byte"] >= 0 for line in bad)


def test_bad_rows_of_parquet_are_counted_from_the_start_of_the_file(predictor, tmp_path):
    write(tmp_path / "in.parquet", [{"text": "" if i == 20 else MANY[i]} for i in range(30)])
    for shard in plan_shards(find_files(str(tmp_path / "in.parquet")), 200):
        worker(predictor, tmp_path / "out").answer(shard)
    (bad,) = [json.loads(line) for part in (tmp_path / "out/_errors").iterdir() for line in part.open()]
    assert bad["row_number"] == 21


def test_a_shard_that_is_answered_twice_is_there_once(predictor, tmp_path):
    (shard,) = plan_shards(find_files(str(write(tmp_path / "in.jsonl", [{"text": "good film"}]))), 300)
    for _ in range(2):
        worker(predictor, tmp_path / "out").answer(shard)
    assert OutputFolder(str(tmp_path / "out")).names("") == ["_job", "part-000000-0123abcd.jsonl"]
    done = JobDone()
    assert _count_finished(OutputFolder(str(tmp_path / "out")), Plan(PLAN, [shard]), done) == []
    assert (done.rows, done.bad, done.resumed_after) == (1, 0, 1)


def test_a_shard_that_kills_its_workers_is_given_up(predictor, tmp_path):
    (shard,) = plan_shards(find_files(str(write(tmp_path / "in.jsonl", [{"text": "good film"}]))), 300)
    for number in range(TRIES):
        OutputFolder(str(tmp_path / "out")).publish(b"", f"{tries_of(PLAN, shard.name)}/{number}")
    assert "its worker died 5 times" in worker(predictor, tmp_path / "out").answer(shard)["problem"]


def test_a_try_counts_before_the_model_is_loaded(tmp_path, monkeypatch):
    """Loading may kill the worker as well, for example when there is not enough memory."""
    (shard,) = plan_shards(find_files(str(write(tmp_path / "in.jsonl", [{"text": "good film"}]))), 300)

    def die(self):
        raise SystemExit

    monkeypatch.setattr(ShardWorker, "predictor", die)
    with pytest.raises(SystemExit):
        worker(None, tmp_path / "out").answer(shard)
    assert len(OutputFolder(str(tmp_path / "out")).names(tries_of(PLAN, shard.name))) == 1


@pytest.mark.parametrize("error", [MemoryError("no memory"), RuntimeError("out of memory"), TypeError("a type")])
def test_whatever_goes_wrong_with_a_shard_is_reported(predictor, tmp_path, monkeypatch, error):
    (shard,) = plan_shards(find_files(str(write(tmp_path / "in.jsonl", [{"text": "good film"}]))), 300)

    def fail(*given, **options):
        raise error

    monkeypatch.setattr("datamux.cluster.worker.predict_file", fail)
    about = worker(predictor, tmp_path / "out").answer(shard)
    assert about["problem"].endswith(f"in.jsonl: {type(error).__name__}: {error}")


def test_a_run_stops_when_another_takes_over(predictor, tmp_path):
    (shard,) = plan_shards(find_files(str(write(tmp_path / "in.jsonl", [{"text": "good film"}]))), 300)
    output = OutputFolder(str(tmp_path / "out"))
    take_over(output, "second")
    settings = Settings("tiny", group_size=1, format="jsonl")
    about = ShardWorker(settings, output.url, plan=PLAN, run="first", prepared=predictor).answer(shard)
    assert not output.names("_job/done")
    with pytest.raises(ValueError, match="another run has taken over"):
        _count(shard, about, JobDone())
    assert ShardWorker(settings, output.url, plan=PLAN, run="second", prepared=predictor).answer(shard)["rows"] == 1


def test_a_machine_that_does_not_see_the_output_folder_says_so(predictor, tmp_path):
    """Its parts would be on a disk of its own. It is no other run that has taken over."""
    (shard,) = plan_shards(find_files(str(write(tmp_path / "in.jsonl", [{"text": "good film"}]))), 300)
    output = OutputFolder(str(tmp_path / "out"))
    settings = Settings("tiny", group_size=1, format="jsonl")
    about = ShardWorker(settings, output.url, plan=PLAN, run="first", prepared=predictor).answer(shard)
    with pytest.raises(ValueError, match="does not see the output folder"):
        _count(shard, about, JobDone())
    assert not (tmp_path / "out").exists()


def test_workers_find_a_relative_output(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    url = OutputFolder("answers").url
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    OutputFolder(url).publish(b"1", "part")
    assert (tmp_path / "answers/part").read_bytes() == b"1"


def test_a_published_file_is_on_the_disk_before_it_has_its_name(monkeypatch, tmp_path):
    """So a power cut leaves no shard that counts as done and whose part is empty."""
    import os

    synced, output = [], OutputFolder(str(tmp_path / "out"))
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    (tmp_path / "part").write_text("rows")
    output.publish(tmp_path / "part", "part-000000")
    file, folder = synced
    assert "/_job/under-way/" in file
    assert folder == str(tmp_path / "out")


def test_names_of_files_that_are_left_out_are_told(tmp_path, caplog):
    for name in ("a.jsonl", "b.parquet.gz", "c.png"):
        (tmp_path / name).write_text("x")
    assert len(find_files(str(tmp_path))) == 1
    assert "2 files of other kinds are left out: b.parquet.gz, c.png" in caplog.text


@pytest.mark.parametrize("kind", [".jsonl", ".parquet", ".csv"])
def test_a_mistake_leaves_nothing_and_can_be_corrected(predictor, tmp_path, monkeypatch, kind):
    model, out = str(tmp_path / "model"), tmp_path / "out"
    source = write(tmp_path / f"in{kind}", [{"review": MANY[i]} for i in range(5)])
    right = Settings(model, text=("review",), group_size=2, format="jsonl", fingerprint=fingerprint_of(model))
    monkeypatch.setattr(file_job, "ray_session", lambda address: pytest.fail("a mistake needs no cluster"))
    with pytest.raises(ValueError, match="column 'text': no such column; there are: review"):
        predict_files(str(source), str(out), replace(right, text=("text",)))
    with pytest.raises(ValueError, match="group_size 50 is more than"):
        predict_files(str(source), str(out), replace(right, group_size=50))
    files, output = find_files(str(source)), OutputFolder(str(out))
    assert open_plan(output, right, files) is None
    check_job(files, right)


def test_columns_are_looked_for_in_several_rows_and_files(predictor, tmp_path):
    settings = Settings(str(tmp_path / "model"))
    (tmp_path / "in").mkdir()
    write(tmp_path / "in/a.jsonl", [{"other": 1}] * 3)
    with pytest.raises(ValueError, match="there are: other"):
        check_job(find_files(str(tmp_path / "in")), settings)
    write(tmp_path / "in/b.jsonl", [{"other": 1}, {"text": "good film"}])
    check_job(find_files(str(tmp_path / "in")), settings)
    (tmp_path / "in/a.jsonl").write_text("no json\n")
    (tmp_path / "in/b.jsonl").write_text("")
    check_job(find_files(str(tmp_path / "in")), settings)  # rows that cannot be read are reported one by one


@pytest.mark.parametrize("kind", [".jsonl", ".parquet", ".csv"])
def test_columns_that_answers_would_replace_are_told_before_ray_starts(predictor, tmp_path, kind):
    write(tmp_path / f"in{kind}", [{"text": "good film", "predicted_label": "x"}])
    files, settings = find_files(str(tmp_path / f"in{kind}")), Settings(str(tmp_path / "model"))
    with pytest.raises(ValueError, match=r"column 'predicted_label': is where an answer may go; .* with --prefix"):
        check_job(files, settings)
    check_job(files, replace(settings, prefix="other_"))


def test_a_format_that_is_added_is_read_on_a_cluster_too(predictor, tmp_path, monkeypatch):
    """As docs/architecture.md says: it is cut at line breaks, and its columns are looked for in its rows."""
    monkeypatch.setitem(FORMATS, ".ndjson", Format(json_lines.read, json_lines.write, by_lines=True))
    monkeypatch.setattr(sources, "INPUTS", (*sources.INPUTS, ".ndjson"))
    source = write(tmp_path / "in.jsonl", [{"id": i, "text": MANY[i]} for i in range(30)]).rename(
        tmp_path / "in.ndjson"
    )
    files = find_files(str(source))
    check_job(files, Settings(str(tmp_path / "model")))
    with pytest.raises(ValueError, match="there are: id, text"):
        check_job(files, Settings(str(tmp_path / "model"), text=("review",)))
    found, shards = [], plan_shards(files, 300)
    for shard in shards:
        assert "problem" not in worker(predictor, tmp_path / "out", format="jsonl").answer(shard)
        found += rows_of(tmp_path / "out" / part_of(PLAN, shard.name, "jsonl"))
    assert len(shards) > 1
    assert [row["id"] for row in found] == list(range(30))


def test_a_job_that_has_done_nothing_is_begun_anew(tmp_path):
    output, settings = OutputFolder(str(tmp_path)), Settings("sentiment", fingerprint="1")
    files, shards = [SourceFile("file:///in.jsonl", 10, "today")], [Shard(0, "file:///in.jsonl", BYTES, 0, 10, 10)]
    first = begin_plan(output, settings, files, shards)
    output.publish(b"rows", part_of(first.id, "000000", "parquet"))
    output.publish(b"rows", bad_rows_of(first.id, "000000"))
    other = replace(settings, prefix="answer_")
    assert open_plan(output, other, files) is None
    second = begin_plan(output, other, files, shards)
    remove_other_plans(output, second.id)
    assert len(output.names("")) == 3, "another run may have taken over: then these are its parts"
    take_over(output, "run", second.id)
    remove_other_plans(output, second.id)
    assert output.names("") == ["_errors", "_job"], "a part that was not counted must not stay"
    assert not output.names("_errors")
    output.publish(b"", mark_of(first.id, "000000", 1, 0))
    assert open_plan(output, settings, files) is None, "the mark of another plan says nothing"
    output.publish(b"", mark_of(second.id, "000000", 1, 0))
    with pytest.raises(ValueError, match="another prefix"):
        open_plan(output, settings, files)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mine.txt").write_text("x")
    with pytest.raises(ValueError, match="is not empty"):
        open_plan(OutputFolder(str(tmp_path / "other")), settings, files)


def test_shards_keep_their_size(tmp_path):
    output, settings = OutputFolder(str(tmp_path)), Settings("sentiment", fingerprint="1")
    files, shards = [SourceFile("file:///in.jsonl", 10, "today")], [Shard(0, "file:///in.jsonl", BYTES, 0, 10, 10)]
    plan = begin_plan(output, settings, files, shards, 1000)
    assert open_plan(output, settings, files, 500) is None, "nothing is done"
    output.publish(b"", mark_of(plan.id, "000000", 1, 0))
    assert open_plan(output, settings, files) == open_plan(output, settings, files, 1000) == plan
    with pytest.raises(ValueError, match="shards of another size; leave --shard-mb out"):
        open_plan(output, settings, files, 500)


def test_the_time_left_does_not_count_the_start_of_ray():
    shard = Shard(0, "file:///in.jsonl", BYTES, 0, 10, 10)
    for shown in (True, False):
        with _bar([shard] * 3, [shard] * 2, shown) as bar:
            began = time.time() + 30
            _advance(bar, shard, {"began": began})
            _advance(bar, shard, {"began": began + 20})
            assert not shown or (bar.start_t, bar.n, bar.desc) == (began, 30, "")


def test_the_work_begins_when_workers_have_their_model():
    done, about = JobDone(), {"rows": 5, "bad": 0, "problems": []}
    shard = Shard(0, "file:///in.jsonl", BYTES, 0, 10, 10)
    for worker_name, began, ended in (("a", 10.0, 20.0), ("b", 14.0, 22.0), ("a", 20.0, 30.0)):
        _count(shard, {**about, "worker": worker_name, "began": began, "ended": ended}, done)
    assert done.working == 30.0 - 12.0


class FakeRay:
    """Stands for Ray: the machines of a cluster."""

    def __init__(self, *machines):
        self.machines = machines

    def cluster_resources(self):
        return {name: sum(has.get(name, 0) for has in self.machines) for name in {n for m in self.machines for n in m}}

    def nodes(self):
        return [{"Alive": True, "Resources": has} for has in self.machines]


def test_a_worker_has_a_gpu_of_its_own_if_there_are_any():
    plain, gpus = FakeRay({"CPU": 8.0}, {"CPU": 4.0}), FakeRay({"CPU": 8.0, "GPU": 2.0}, {"CPU": 4.0})
    assert (Workers().num_gpus(plain), Workers().number(plain)) == (0, 12)
    assert (Workers().num_gpus(gpus), Workers().number(gpus)) == (1, 2)
    assert (Workers(device="cpu").num_gpus(gpus), Workers(device="cpu", num_cpus=4).number(gpus)) == (0, 3)
    assert (Workers(device="cuda:1").num_gpus(gpus), Workers(device="cuda:1").own_device) == (1, "cuda")
    assert Workers().own_device is None


def test_an_address_where_nothing_listens_is_told_at_once():
    before = time.monotonic()
    with (
        pytest.raises(ValueError, match=r"no Ray cluster answers at '127\.0\.0\.1:9'; start one"),
        ray_session("127.0.0.1:9"),
    ):
        pass
    assert time.monotonic() - before < 20


def test_a_worker_that_fits_on_no_machine_is_refused(monkeypatch, caplog):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray = FakeRay({"CPU": 8.0}, {"CPU": 4.0})
    Workers(num_cpus=8).check_fit(ray)
    with pytest.raises(ValueError, match=r"needs 12 cores and 0 GPUs, and no machine has them \(8 cores"):
        Workers(num_cpus=12).check_fit(ray)
    with pytest.raises(ValueError, match="1 GPUs"):
        Workers(device="cuda").check_fit(ray)
    assert not caplog.records
    Workers(num_cpus=12, address="auto").check_fit(ray)
    assert "until then the job waits" in caplog.text


def test_a_file_that_cannot_be_answered_is_reported(predictor, tmp_path):
    (tmp_path / "in.csv").write_text("other\nx\n")
    (shard,) = plan_shards(find_files(str(tmp_path / "in.csv")), 300)
    about = worker(predictor, tmp_path / "out").answer(shard)
    assert "no such column; there are: other" in about["problem"]
    assert about["problem"].startswith(f"{shard.url}, column 'text'")
    assert not (tmp_path / "out/_job/done").exists()


def test_problems_name_no_temporary_files(predictor, tmp_path, monkeypatch):
    (shard,) = plan_shards(find_files(str(write(tmp_path / "in.jsonl", [{"text": "good film"}]))), 300)

    def fail(predictor, source, part, **options):
        raise OSError(28, "No space left on device", str(part))

    monkeypatch.setattr("datamux.cluster.worker.predict_file", fail)
    about = worker(predictor, tmp_path / "out").answer(shard)
    assert about["problem"] == f"{shard.url}: [Errno 28] No space left on device: 'a temporary file'"


def test_a_parquet_file_that_cannot_be_read_is_a_shard_that_fails(predictor, tmp_path):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in/a.parquet", [{"text": "good film"}])
    (tmp_path / "in/b.parquet").write_bytes((tmp_path / "in/a.parquet").read_bytes()[:-1])
    good, bad = plan_shards(find_files(str(tmp_path / "in")), 300)
    here = worker(predictor, tmp_path / "out")
    assert here.answer(good)["rows"] == 1
    assert here.answer(bad)["problem"].startswith(f"{bad.url}: is not a parquet file")


def test_the_worker_refuses_another_model(predictor, tmp_path):
    (shard,) = plan_shards(find_files(str(write(tmp_path / "in.jsonl", [{"text": "good film"}]))), 300)
    settings = Settings(str(tmp_path / "model"), fingerprint="other")
    about = ShardWorker(settings, str(tmp_path / "out"), plan=PLAN).answer(shard)
    assert "is not the one that the job began with" in about["problem"]
    assert about["stop"], "such a machine would fail shard after shard, faster than others answer them"
    assert gethostname() in about["problem"]
    settings = replace(settings, fingerprint=fingerprint_of(str(tmp_path / "model")), format="jsonl")
    assert ShardWorker(settings, str(tmp_path / "out"), plan=PLAN).answer(shard)["rows"] == 1


def test_the_fingerprint_is_of_the_content(predictor, tmp_path):
    import shutil

    shutil.copytree(tmp_path / "model", tmp_path / "copy")
    assert fingerprint_of(str(tmp_path / "model")) == fingerprint_of(str(tmp_path / "copy"))
    (tmp_path / "copy/config.json").write_text("{}")
    assert fingerprint_of(str(tmp_path / "model")) != fingerprint_of(str(tmp_path / "copy"))


def test_a_job_goes_on_only_with_the_same_input_and_settings(tmp_path):
    output, settings = OutputFolder(str(tmp_path)), Settings("sentiment", fingerprint="1")
    files = [SourceFile("file:///in.jsonl", 10, "today")]
    shards = [Shard(0, "file:///in.jsonl", BYTES, 0, 10, 10), Shard(1, "file:///in.parquet", ROWS, 0, 5, 10)]
    assert open_plan(output, settings, files) is None
    plan = begin_plan(output, settings, files, shards)
    assert open_plan(output, settings, files) == plan, "also if nothing is done"
    output.publish(b"", mark_of(plan.id, "000000", 1, 0))
    assert open_plan(output, settings, files) == plan
    for changed, name in (
        (replace(settings, fingerprint="2"), "model"),
        (replace(settings, group_size=2), "group_size"),
        (replace(settings, format="jsonl"), "format"),
    ):
        with pytest.raises(ValueError, match=f"was begun with another {name}; choose another output folder"):
            open_plan(output, changed, files)
    for other in ([], [replace(files[0], size=11)], [replace(files[0], stamp="now")], [*files, *files]):
        with pytest.raises(ValueError, match="another source"):
            open_plan(output, settings, other)


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("in", "in"),
        ("in", "in/out"),
        ("in/a.jsonl", "in"),
        ("in/**", "in/o"),
        ("in/*/*.jsonl", "in/out"),
        ("in/part-*.parquet", "in"),
        ("in/*/_errors/*.jsonl", "in/out"),
    ],
)
def test_output_and_input_must_be_apart(source, output):
    with pytest.raises(ValueError, match="lie within each other"):
        _check_apart(source, output, "jsonl" if source.endswith("l") else "parquet")


@pytest.mark.parametrize(
    ("source", "output"),
    [("in", "out"), ("in", "in2"), ("in/*.jsonl", "in/out"), ("in", "memory://in"), ("in/**/*.csv", "in/out")],
)
def test_output_beside_the_input_is_fine(source, output):
    _check_apart(source, output, "jsonl")


def worker(predictor, output, format="jsonl"):
    return ShardWorker(Settings("tiny", group_size=1, format=format), str(output), plan=PLAN, prepared=predictor)
