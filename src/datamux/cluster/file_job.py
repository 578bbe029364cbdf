"""`datamux predict --engine ray`: Ray Data hands shards to workers, each with its own copy of the model.

Only descriptions of shards and counts go through Ray; rows are read and written by the workers. So the driver holds no
rows, and its memory grows only with the number of shards: by about 10 KB for each of them.
"""

import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean
from typing import Any
from uuid import uuid4

from fsspec.utils import glob_translate
from tqdm.auto import tqdm

from datamux.cluster.checking import check_job
from datamux.cluster.manifest import Plan, Settings, begin_plan, open_plan, remove_other_plans, take_over
from datamux.cluster.names import BEGUN, FAILED, UNDER_WAY, bad_rows_of, marks_of, part_of
from datamux.cluster.ray_session import import_ray, ray_session
from datamux.cluster.shards import Shard, largest_group, plan_shards, shard_size
from datamux.cluster.sources import SourceFile, find_files, is_glob, open_place
from datamux.cluster.storage import OutputFolder
from datamux.cluster.worker import ShardWorker
from datamux.cluster.workers import Workers
from datamux.errors import check_choice
from datamux.inference.journal import claimed

OUTPUT_FORMATS = ("parquet", "jsonl")
SHOWN = 5  # problems that are told at the end
DEATHS = 5  # workers that may die in turn while they start, before Ray gives up


@dataclass
class JobDone:
    """What the output folder holds now, and what this run could not do."""

    rows: int = 0
    bad: int = 0
    shards: int = 0
    resumed_after: int = 0  # shards that were done before
    new_rows: int = 0  # good and bad rows of this run
    ready: dict[str, float] = field(default_factory=dict)  # when each worker of this run had its model
    ended: float = 0.0  # when the last shard of this run was done
    problems: list[str] = field(default_factory=list)  # of the first bad rows
    failed: list[dict[str, Any]] = field(default_factory=list)  # shards that could not be read or answered

    @property
    def working(self) -> float:
        """The seconds from when a worker had its model until the last shard was done, on average over the workers."""
        return self.ended - fmean(self.ready.values()) if self.ready else 0.0


def predict_files(
    source: str,
    output: str,
    settings: Settings,
    workers: Workers | None = None,
    *,
    shard_bytes: int | None = None,
    progress: bool = False,
) -> JobDone:
    """Answer every row of every file of `source` into parts in the folder `output`; goes on where a run stopped."""
    workers = workers or Workers()
    check_choice("format", settings.format, OUTPUT_FORMATS)
    if shard_bytes is not None and shard_bytes < 1:
        raise ValueError(f"a shard must have at least one byte, got {shard_bytes}; choose a larger --shard-mb")
    _check_apart(source, output, settings.format)
    files, folder = find_files(source), OutputFolder(output)
    with ExitStack() as stack:

        @cache
        def ray() -> Any:
            """Ray, which is started when it is needed for the first time."""
            found = stack.enter_context(ray_session(workers.address))
            workers.check_fit(found)
            return found

        if folder.local is not None:
            stack.enter_context(claimed(folder.local / "_job" / "lock"))
        if open_plan(folder, settings, files, shard_bytes) is None:
            check_job(files, settings)
            ray()  # which may fail, and takes long: until then the folder is left as it is
        run = uuid4().hex
        take_over(folder, run)
        plan = open_plan(folder, settings, files, shard_bytes)  # as it is when no earlier run can change it any more
        if plan is None:
            shards = _shards(files, shard_bytes, workers.number(ray()))
            plan = begin_plan(folder, settings, files, shards, shard_bytes)
        take_over(folder, run, plan.id)
        remove_other_plans(folder, plan.id)
        done = JobDone(shards=len(plan.shards))
        left = _count_finished(folder, plan, done)
        if left:
            folder.remove(BEGUN)  # what an earlier run could not end may be tried anew
            with _bar(plan.shards, left, progress) as bar:
                for shard, about in _run(ray(), left, folder, settings, workers, plan.id, run):
                    _advance(bar, shard, about)
                    _count(shard, about, done)
        folder.remove(FAILED)  # of an earlier run, even if nothing was left for this one
        if done.failed:
            folder.publish("".join(json.dumps(one) + "\n" for one in done.failed).encode(), FAILED)
        if len(done.failed) == len(plan.shards):
            others = f" (all {len(done.failed)} shards failed)" if len(done.failed) > 1 else ""
            raise ValueError(done.failed[0]["problem"] + others)
        remove_other_plans(folder, plan.id)  # a worker of an earlier run may have been killed before it could
        folder.remove(UNDER_WAY)
        return done


def _shards(files: Sequence[SourceFile], shard_bytes: int | None, workers: int) -> list[Shard]:
    if shard_bytes is not None:
        return plan_shards(files, shard_bytes)
    return plan_shards(files, shard_size(files, workers), largest_group(files, workers))


def _count_finished(folder: OutputFolder, plan: Plan, done: JobDone) -> list[Shard]:
    """Add what earlier runs have done, and return the shards that are left."""
    finished = set()
    for name in folder.names(marks_of(plan.id)):
        number, rows, bad = map(int, name.split("-"))
        if number not in finished:
            finished.add(number)
            done.rows += rows
            done.bad += bad
    done.resumed_after = len(finished)
    return [shard for shard in plan.shards if shard.number not in finished]


def _run(
    ray: Any,
    shards: Sequence[Shard],
    folder: OutputFolder,
    settings: Settings,
    workers: Workers,
    plan: str,
    run: str,
) -> Iterator[tuple[Shard, dict[str, Any]]]:
    """Every shard with what became of it, as they are finished."""
    data = import_ray("ray.data")
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.max_consecutive_actor_init_deaths = DEATHS
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    number = min(workers.number(ray), len(shards))
    items = [{"shard": json.dumps(shard.to_dict())} for shard in shards]
    results = data.from_items(items, override_num_blocks=len(items)).map_batches(
        ShardWorker,
        fn_constructor_args=(settings, folder.url),
        fn_constructor_kwargs={
            "plan": plan,
            "run": run,
            "threads": workers.threads,
            "device": workers.own_device,
            "memory": workers.memory,
        },
        batch_size=1,
        compute=data.ActorPoolStrategy(size=number, max_tasks_in_flight_per_actor=1),
        num_cpus=workers.num_cpus,
        num_gpus=workers.num_gpus(ray),
    )
    by_number = {shard.number: shard for shard in shards}
    for row in results.iter_rows():
        about = json.loads(row["found"])
        yield by_number[about["number"]], about


def _count(shard: Shard, about: dict[str, Any], done: JobDone) -> None:
    if about.get("stop"):
        raise ValueError(about["problem"])
    if "problem" in about:
        place = {"file": shard.url, "cut": shard.cut, "start": shard.start, "stop": shard.stop}
        done.failed.append(place | {"problem": about["problem"]})
        return
    done.ready[about["worker"]] = min(about["began"], done.ready.get(about["worker"], about["began"]))
    done.ended = max(done.ended, about["ended"])
    done.rows += about["rows"]
    done.bad += about["bad"]
    done.new_rows += about["rows"] + about["bad"]
    done.problems += about["problems"][: SHOWN - len(done.problems)]


@contextmanager
def _bar(shards: Sequence[Shard], left: Sequence[Shard], shown: bool) -> Iterator[Any]:
    """A bar that counts bytes of input: shards differ in size. The time left is by the average of this run."""
    total, ahead = (sum(shard.size for shard in some) for some in (shards, left))
    with tqdm(total=total, initial=total - ahead, unit="B", unit_scale=True, smoothing=0, disable=not shown) as bar:
        bar.set_description("waiting for the first shards")
        yield bar


def _advance(bar: Any, shard: Shard, about: dict[str, Any]) -> None:
    """Count a shard. The average begins when the first worker had its model: Ray's start must not make it look slow."""
    if bar.desc and not bar.disable:
        bar.start_t = max(bar.start_t, about["began"])
        bar.set_description(None, refresh=False)
    bar.update(shard.size)


def _check_apart(source: str, output: str, format: str) -> None:
    """The output must not become part of the input, nor replace it."""
    (reads, place), (writes, target) = open_place(source), open_place(output)
    if type(reads) is not type(writes):
        return
    if is_glob(reads, place):
        plan, shard = "0" * 8, "0" * 6
        written = (part_of(plan, shard, format), bad_rows_of(plan, shard))
        within = any(re.match(glob_translate(place), f"{target}/{name}") for name in written)
    else:
        pairs = ((target, place), (place, target))
        within = any(inner == outer or inner.startswith(outer.rstrip("/") + "/") for inner, outer in pairs)
    if within:
        raise ValueError(f"{output} and {source} lie within each other; choose another output folder")
