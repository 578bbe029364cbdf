"""One run of a file job in a process of its own, so that its time and memory are not mixed up with those of others.

`python -m datamux.cluster.measured_run JSON` prints what it took as the last line, as JSON.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

LOCAL, RAY = "local", "ray"


def measured_run(engine: str, model: str, source: str, output: str, workers: int, group_size: int) -> dict[str, Any]:
    """Seconds of everything and of the work itself, rows, and the peak memory of this process in megabytes.

    Everything runs on as many cores as there are workers: Ray's own processes too, and the threads of the local engine.
    """
    if hasattr(os, "sched_setaffinity"):  # not on macOS; processes that are started from this one have the same cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:workers])
    before = time.perf_counter()
    work = _on_ray if engine == RAY else _here
    rows, working = work(model, source, output, workers, group_size)
    return {"rows": rows, "seconds": time.perf_counter() - before, "working": working, "driver_mb": peak_mb()}


def _here(model: str, source: str, output: str, workers: int, group_size: int) -> tuple[int, float]:
    import torch

    from datamux.inference.files import predict_file
    from datamux.inference.predictor import load

    torch.set_num_threads(workers)
    predictor = load(model)
    before = time.perf_counter()
    done = predict_file(predictor, Path(source), Path(output + ".jsonl"), group_size=group_size)
    return done.rows, time.perf_counter() - before


def _on_ray(model: str, source: str, output: str, workers: int, group_size: int) -> tuple[int, float]:
    from datamux.cluster.file_job import predict_files
    from datamux.cluster.manifest import Settings, fingerprint_of
    from datamux.cluster.workers import Workers

    settings = Settings(model, group_size=group_size, format="jsonl", fingerprint=fingerprint_of(model))
    done = predict_files(source, output, settings, Workers(concurrency=workers))
    return done.rows, done.working


def peak_mb() -> float:
    """The most memory that this process has had.

    `getrusage` is not asked on Linux, where a process begins with the peak of the one that started it.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024
    except (OSError, StopIteration):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)


if __name__ == "__main__":
    print(json.dumps(measured_run(**json.loads(sys.argv[1]))))
