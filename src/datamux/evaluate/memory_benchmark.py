"""The peak memory of inference at each group size. Every point runs in its own process, as a peak never goes down."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from typing import Any

from datamux.evaluate.contenders import Shape
from datamux.evaluate.workloads import random_rows
from datamux.inference.runtime import TorchRuntime


def measure_memory(
    shape: Shape, group_size: int, *, groups: int = 60, tokens: int = 128, **options: Any
) -> dict[str, float]:
    """One pass of `groups` groups, in a new process. `options` are those of MuxConfig; group size 1 is the baseline.

    "model" and "peak" are megabytes beyond what Python and torch need themselves.
    """
    request = {"shape": asdict(shape), "group_size": group_size, "groups": groups, "tokens": tokens, "options": options}
    command = [sys.executable, "-m", "datamux.evaluate.memory_benchmark", json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(
            f"measuring memory at group size {group_size} failed; if memory ran out, use fewer --groups or --tokens. "
            f"The process said: {done.stderr.strip()[-500:]}"
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_here(request: dict[str, Any]) -> dict[str, float]:
    """Run the point in this process, whose peak stays raised afterwards."""
    shape, k = Shape(**request["shape"]), request["group_size"]
    groups, tokens = request["groups"], request["tokens"]
    small = TorchRuntime(replace(shape, layers=1, hidden=8 * shape.heads).baseline())
    # Torch allocates memory for itself at the first pass.
    small.logits(random_rows([4], shape.vocab_size).batch([0]), 1)
    before = resident()
    model = shape.baseline() if k == 1 else shape.multiplexed(k, **request["options"])
    loaded = resident()
    rows = random_rows([tokens] * (groups * k), shape.vocab_size)
    TorchRuntime(model).logits(rows.batch(range(len(rows))), k)
    return {"model": loaded - before, "peak": resident(peak=True) - before}


def resident(*, peak: bool = False) -> float:
    """Megabytes that this process has in memory now, or the most that it ever had."""
    name = "VmHWM:" if peak else "VmRSS:"
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


if __name__ == "__main__":
    print(json.dumps(measure_here(json.loads(sys.argv[1]))))
