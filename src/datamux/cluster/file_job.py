"""`datamux predict --engine ray`: Ray Data hands shards to workers, each with its own copy of the model.

Only descriptions of shards and counts go through Ray; rows are read and written by the workers. So the memory of the
driver does not grow with the input.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from tqdm.auto import tqdm

from datamux.cluster.manifest import Settings, open_manifest, write_manifest
from datamux.cluster.ray_session import import_ray, ray_session
from datamux.cluster.shards import Shard, plan_shards, shard_size
from datamux.cluster.sources import MAGIC, SourceFile, find_files, open_place
from datamux.cluster.storage import UNDER_WAY, OutputFolder
from datamux.cluster.worker import BEGUN, DONE, ShardWorker
from datamux.errors import check_at_least_one, check_choice
from datamux.inference.journal import claimed
from datamux.inference.runtime import MEMORY

FORMATS = ("parquet", "jsonl")
SHOWN = 5  # problems that are told at the end
ENOUGH = 3  # shards that fail before any is answered, to stop the job


@dataclass(frozen=True)
class Workers:
    """Who does the work. `concurrency` is their number; by default as many as the cluster's cores allow."""

    concurrency: int | None = None
    num_cpus: float = 1
    address: str | None = None
    device: str | None = None
    memory: int = MEMORY  # bytes that one pass may take

    def __post_init__(self) -> None:
        if self.concurrency is not None:
            check_at_least_one("--concurrency", self.concurrency)
        if not self.num_cpus > 0:
            raise ValueError(f"--num-cpus must be more than 0, got {self.num_cpus:g}")

    @property
    def threads(self) -> int:
        return max(1, int(self.num_cpus))

    @property
    def num_gpus(self) -> int:
        return int(str(self.device).startswith("cuda"))

    def number(self, ray: Any) -> int:
        """How many workers there are."""
        if self.concurrency is not None:
            return self.concurrency
        found = ray.cluster_resources()
        if self.num_gpus:
            return max(1, int(found.get("GPU", 1)))
        return max(1, int(found.get("CPU", 1) // self.num_cpus))


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
    failed: list[str] = field(default_factory=list)  # shards that could not be read or answered

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
    check_choice("format", settings.format, FORMATS)
    _check_apart(source, output)
    files, folder = find_files(source), OutputFolder(output)
    with ExitStack() as stack:
        if folder.local is not None:
            stack.enter_context(claimed(folder.local / "_job" / "lock"))
        shards = open_manifest(folder, settings, files)
        ray = None
        if shards is None:
            ray = stack.enter_context(ray_session(workers.address))
            shards = _begin(folder, settings, files, shard_bytes or shard_size(files, workers.number(ray)))
        done = JobDone(shards=len(shards))
        left = _count_finished(folder, shards, done)
        if left:
            folder.remove(BEGUN)  # what an earlier run could not end may be tried anew
            ray = ray or stack.enter_context(ray_session(workers.address))
            with _bar(shards, left, progress) as bar:
                for shard, about in _run(ray, left, folder, settings, workers):
                    bar.update(shard.size)
                    _count(about, done)
        if done.failed and not done.rows + done.bad:
            raise ValueError(done.failed[0])
        folder.remove(UNDER_WAY)
        return done


def _begin(folder: OutputFolder, settings: Settings, files: Sequence[SourceFile], size: int) -> list[Shard]:
    if set(folder.names("")) - {"_job"}:
        raise ValueError(f"{folder.url} is not empty, and no job of this kind began it; choose another folder")
    shards = plan_shards(files, size)
    write_manifest(folder, settings, files, shards)
    return shards


def _count_finished(folder: OutputFolder, shards: Sequence[Shard], done: JobDone) -> list[Shard]:
    """Add what earlier runs have done, and return the shards that are left."""
    finished = set()
    for name in folder.names(DONE):
        number, rows, bad = map(int, name.split("-"))
        if number not in finished:
            finished.add(number)
            done.rows += rows
            done.bad += bad
    done.resumed_after = len(finished)
    return [shard for shard in shards if shard.number not in finished]


def _run(
    ray: Any, shards: Sequence[Shard], folder: OutputFolder, settings: Settings, workers: Workers
) -> Iterator[tuple[Shard, dict[str, Any]]]:
    """Every shard with what became of it, as they are finished."""
    data = import_ray("ray.data")
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    number = min(workers.number(ray), len(shards))
    items = [{"shard": json.dumps(shard.to_dict())} for shard in shards]
    results = data.from_items(items, override_num_blocks=len(items)).map_batches(
        ShardWorker,
        fn_constructor_args=(settings, folder.url),
        fn_constructor_kwargs={"threads": workers.threads, "device": workers.device, "memory": workers.memory},
        batch_size=1,
        compute=data.ActorPoolStrategy(size=number, max_tasks_in_flight_per_actor=1),
        num_cpus=workers.num_cpus,
        num_gpus=workers.num_gpus,
    )
    by_number = {shard.number: shard for shard in shards}
    for row in results.iter_rows():
        about = json.loads(row["found"])
        yield by_number[about["number"]], about


def _count(about: dict[str, Any], done: JobDone) -> None:
    if "problem" in about:
        done.failed.append(about["problem"])
        if len(done.failed) == ENOUGH and not done.rows + done.bad:
            raise ValueError(done.failed[0])  # nothing has worked, so it is a mistake in the command
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
        yield bar


def _check_apart(source: str, output: str) -> None:
    """The output must not become part of the input, nor replace it."""
    (reads, place), (writes, target) = open_place(source), open_place(output)
    if type(reads) is not type(writes):
        return
    if any(sign in place for sign in MAGIC):
        if "**" not in place:
            return
        place = place.partition("**")[0].rstrip("/")
    for inner, outer in ((target, place), (place, target)):
        if inner == outer or inner.startswith(outer.rstrip("/") + "/"):
            raise ValueError(f"{output} and {source} lie within each other; choose another output folder")
