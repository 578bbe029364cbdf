"""Train image networks. A run is one series at one group size with one seed; a finished run is a small file.

A run is found again by its settings: with another setting it is another run. VERSION is one of the settings. The file
says which code made it. Several processes with one thread each share the work; one run is never split.
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
from dataclasses import asdict, dataclass
from itertools import islice
from multiprocessing.managers import SyncManager
from pathlib import Path
from typing import Any

import torch

from datamux.evaluate.records import provenance
from datamux.model import Multiplexed
from datamux.multiplexers.for_images.nonlinear import Nonlinear
from datamux.multiplexers.identity import Identity
from datamux.reproduce.experiment import Series
from datamux.vision.digits import Images
from datamux.vision.training import accuracy_by_slot, train_on_images

Progress = Callable[[float], None]
# The version of the code. Raise it with every change that makes a run give something else, so that stored runs are not
# used again; tests/unit/test_image_runs.py notices such a change. Older runs have a field `native`: it is true where
# they were trained by C++ code, since removed, that gave the same numbers as torch to rounding.
VERSION = 2
# Milliseconds of training per slot and step, where a multiplexer is much cheaper or dearer than the others.
SLOT_MILLISECONDS = {Identity: 0.1, Nonlinear: 3.5}
OTHER_SLOT_MILLISECONDS = 0.35


@dataclass(frozen=True)
class Run:
    series: Series
    n: int
    seed: int

    def settings(self, data: Images) -> dict[str, Any]:
        """All that the result depends on."""
        return {
            "version": VERSION,
            "network": asdict(self.series.network),
            "protocol": asdict(self.series.protocol),
            "n": self.n,
            "seed": self.seed,
            "data": data.about(),
        }

    def file(self, folder: Path, data: Images) -> Path:
        digest = hashlib.sha256(json.dumps(self.settings(data), sort_keys=True).encode()).hexdigest()[:10]
        network = self.series.network
        name = f"{network.backbone}-{network.multiplexer}-n{self.n}-seed{self.seed}-{digest}.json"
        return folder / name

    @property
    def cost(self) -> float:
        """Roughly, milliseconds of training: for the progress bar and for starting long runs first."""
        network = self.series.network
        slot = SLOT_MILLISECONDS.get(network.multiplexer_class, OTHER_SLOT_MILLISECONDS)
        pass_ = 1.0 if network.backbone == "mlp" else 4.0
        return self.series.protocol.total * self.series.protocol.groups / 32 * (pass_ + slot * self.n)


def finished(run: Run, folder: Path, data: Images) -> dict[str, Any] | None:
    """What is stored of a run that was finished before: its settings, what made it, and its result."""
    file = run.file(folder, data)
    found: dict[str, Any] | None = json.loads(file.read_text()) if file.exists() else None
    return found


def trained(run: Run, data: Images, progress: Progress = lambda cost: None) -> tuple[Multiplexed, list[float]]:
    """Train the network of a run. Returns it and the accuracy of every slot."""
    protocol = run.series.protocol
    model = run.series.network.build(run.n, dim=data.train_images.shape[1], seed=run.seed)
    cost = run.cost / protocol.total  # of one step
    train_on_images(model, data, protocol, seed=run.seed, progress=lambda steps: progress(cost * steps))
    return model, accuracy_by_slot(model, data, seed=run.seed)


def perform(
    run: Run, folder: Path, data: Images, made_by: dict[str, Any], progress: Progress = lambda cost: None
) -> None:
    """Train, measure every slot, and store the result."""
    before = time.perf_counter()
    model, slots = trained(run, data, progress)
    result = {
        "n": run.n,
        "seed": run.seed,
        "accuracy": sum(slots) / len(slots),
        "slots": slots,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": time.perf_counter() - before,
    }
    file = run.file(folder, data)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    stored = {"settings": run.settings(data), "made_by": made_by, "result": result}
    part.write_text(json.dumps(stored, indent=1) + "\n")
    part.replace(file)  # at once, so that an interruption leaves no half-written file


def perform_all(runs: Sequence[Run], folder: Path, data: Images, *, jobs: int, progress: Progress) -> None:
    """Perform the runs that are not finished yet, long ones first, `jobs` at a time."""
    waiting = sorted((run for run in runs if finished(run, folder, data) is None), key=lambda run: -run.cost)
    made_by = provenance()  # before anything is trained: the code that runs is that of this moment
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
                f"a process ended, perhaps for lack of memory: try fewer --jobs; finished runs are stored ({error})"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def build_all(runs: Sequence[Run], data: Images) -> None:
    """Build every network once, so that an impossible one is an error before the first is trained."""
    for run in {(run.series.name, run.n): run for run in runs}.values():
        run.series.network.build(run.n, dim=data.train_images.shape[1])


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
    """Submit a run whenever one ends, so that after an interruption no further one starts; pass on the progress."""
    ahead = iter(waiting)
    left = {submit(run) for run in islice(ahead, jobs)}
    while left:
        done, left = wait(left, timeout=0.5, return_when=FIRST_COMPLETED)
        for cost in _drain(told):
            progress(cost)
        for future in done:
            future.result()  # raises what the run raised
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
