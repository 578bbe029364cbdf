"""One run is a series at one group size with one seed. A finished run is a small file, so that nothing is run twice.

A run's file is found again by its settings: change one, and it is another run. VERSION is one of them. The file says
which code made it. Several processes of one thread each share the work; one run is never split.
"""

import hashlib
import json
import multiprocessing
import os
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing.managers import SyncManager
from pathlib import Path
from typing import Any

import torch

from datamux.evaluate.records import provenance
from datamux.native.layer import switch
from datamux.reproduce.series import Series
from datamux.tasks.images import Images
from datamux.train.images import accuracy_by_slot, train_on_images

Progress = Callable[[float], None]
# Of the code. Raise it with every change that makes a run give something else, so that kept runs are not used again;
# tests/unit/test_image_runs.py notices such a change of torch's way, tests/parity that native code differs from it.
VERSION = 2


@dataclass(frozen=True)
class Run:
    series: Series
    n: int
    seed: int

    def settings(self, data: Images) -> dict[str, Any]:
        """All that the result depends on."""
        return {
            "version": VERSION,
            "network": self.series.network.as_dict(),
            "protocol": self.series.protocol.as_dict(),
            "n": self.n,
            "seed": self.seed,
            "data": data.about(),
        }

    def file(self, folder: Path, data: Images) -> Path:
        digest = hashlib.sha256(json.dumps(self.settings(data), sort_keys=True).encode()).hexdigest()[:10]
        network = self.series.network
        name = f"{network.backbone}-{network.multiplexer}-n{self.n}-seed{self.seed}-{digest}.json"
        return folder / "runs" / name

    @property
    def cost(self) -> float:
        """Roughly, milliseconds of training: for the progress bar and for starting long runs first."""
        network = self.series.network
        slot = (
            3.5 if network.multiplexer.startswith("nonlinear") else 0.35 if network.multiplexer != "identity" else 0.1
        )
        pass_ = 1.0 if network.backbone == "mlp" else 4.0
        return self.series.protocol.total * self.series.protocol.groups / 32 * (pass_ + slot * self.n)


def runs_of(series: Sequence[Series], seeds: int) -> list[Run]:
    return [Run(s, n, seed) for s in series for n in s.sizes for seed in range(seeds)]


def finished(run: Run, folder: Path, data: Images) -> dict[str, Any] | None:
    """What was kept of a run that was finished before: its settings, what made it, its result."""
    file = run.file(folder, data)
    if not file.exists():
        return None
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def perform(
    run: Run, folder: Path, data: Images, made_by: dict[str, Any], progress: Progress = lambda cost: None
) -> None:
    """Train, measure every slot, and keep the result."""
    before = time.perf_counter()
    total = run.series.protocol.total
    model = run.series.network.build(run.n, dim=data.train_images.shape[1], seed=run.seed)
    native = switch(model, True)
    train_on_images(
        model,
        data,
        run.series.protocol,
        seed=run.seed,
        progress=lambda steps: progress(run.cost * steps / total),
    )
    switch(model, False)
    slots = accuracy_by_slot(model, data, seed=run.seed)
    result = {
        "n": run.n,
        "seed": run.seed,
        "accuracy": sum(slots) / len(slots),
        "slots": slots,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": time.perf_counter() - before,
        "native": native,  # the same numbers to rounding, in less time
    }
    file = run.file(folder, data)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    kept = {"settings": run.settings(data), "made_by": made_by, "result": result}
    part.write_text(json.dumps(kept, indent=1) + "\n")
    part.replace(file)  # at once, so that an interruption leaves no half of a file


def perform_all(runs: Sequence[Run], folder: Path, data: Images, *, jobs: int, progress: Progress) -> None:
    """Perform the runs that are not finished yet, long ones first; `jobs` at a time."""
    waiting = sorted((run for run in runs if finished(run, folder, data) is None), key=lambda run: -run.cost)
    made_by = provenance()  # before anything is trained: the code that runs is the code of now
    if jobs == 1:
        with one_thread():
            for run in waiting:
                perform(run, folder, data, made_by, progress)
        return
    context = multiprocessing.get_context("spawn")
    with SyncManager(ctx=context) as manager:
        told: Any = manager.Queue()
        pool = ProcessPoolExecutor(jobs, context, _start_worker, (data, told, made_by))
        try:
            share_out(waiting, lambda run: pool.submit(_work, run, folder), jobs, told, progress)
        except BrokenProcessPool as error:
            raise ChildProcessError(
                f"a process ended, perhaps for want of memory: try fewer jobs; finished runs are kept ({error})"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def build_all(runs: Sequence[Run], data: Images) -> None:
    """Build every network once, so that an impossible one is an error before the first is trained."""
    built: list[tuple[Series, int]] = []
    for run in runs:
        if (run.series, run.n) not in built:
            run.series.network.build(run.n, dim=data.train_images.shape[1])
            built.append((run.series, run.n))


class one_thread:
    """These networks are too small for a second thread to help; a second process does."""

    def __enter__(self) -> None:
        self.before = torch.get_num_threads()
        torch.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        torch.set_num_threads(self.before)


def share_out(
    waiting: Sequence[Run], submit: Callable[[Run], "Future[None]"], jobs: int, told: Any, progress: Progress
) -> None:
    """Give out a run whenever one ends, so that after an interruption no further one starts; pass on what is told."""
    ahead = iter(waiting)
    left = {submit(run) for run in islice(ahead, jobs)}
    while left:
        done, left = wait(left, timeout=0.5, return_when=FIRST_COMPLETED)
        for cost in _drain(told):
            progress(cost)
        for future in done:
            future.result()  # a failure of one is ours
        left |= {submit(run) for run in islice(ahead, len(done))}


def _drain(told: Any) -> Iterator[float]:
    while True:
        try:
            yield told.get_nowait()
        except queue.Empty:
            return


_worker: dict[str, Any] = {}


def _start_worker(data: Images, told: Any, made_by: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    _worker.update(data=data, told=told, made_by=made_by)


def _work(run: Run, folder: Path) -> None:
    perform(run, folder, _worker["data"], _worker["made_by"], _worker["told"].put)
