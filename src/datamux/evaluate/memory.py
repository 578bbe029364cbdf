"""Peak memory of inference against the group size. Every point runs in a process of its own: a peak never goes down."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from typing import Any

from datamux.evaluate.contenders import Shape, random_rows
from datamux.inference.runtime import TorchRuntime


@dataclass(frozen=True)
class MemoryPoint:
    """One pass of `groups` groups. `model` and `peak` are megabytes above what Python and torch take by themselves."""

    group_size: int
    groups: int
    tokens: int
    model: float
    peak: float


def measure_memory(
    shape: Shape, group_size: int, *, groups: int = 60, tokens: int = 128, **options: Any
) -> MemoryPoint:
    """Run one point in a new process. `options` are those of MuxConfig; group size 1 is the plain model."""
    request = {"shape": asdict(shape), "group_size": group_size, "groups": groups, "tokens": tokens, "options": options}
    command = [sys.executable, "-m", "datamux.evaluate.memory", json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"measuring memory at group size {group_size} failed: {done.stderr.strip()[-500:]}")
    return MemoryPoint(**json.loads(done.stdout.splitlines()[-1]))


def measure_here(request: dict[str, Any]) -> MemoryPoint:
    """The same in this process, whose peak it raises for good."""
    shape, k = Shape(**request["shape"]), request["group_size"]
    groups, tokens = request["groups"], request["tokens"]
    small = TorchRuntime(replace(shape, layers=1, hidden=8 * shape.heads).plain())
    small.logits(random_rows([4], shape.vocab_size).batch([0]), 1)  # torch allocates its own things at the first pass
    before = resident()
    model = shape.plain() if k == 1 else shape.multiplexed(k, **request["options"])
    loaded = resident()
    rows = random_rows([tokens] * (groups * k), shape.vocab_size)
    TorchRuntime(model).logits(rows.batch(range(len(rows))), k)
    return MemoryPoint(k, groups, tokens, loaded - before, resident(peak=True) - before)


def resident(*, peak: bool = False) -> float:
    """Megabytes of this process that are in memory now, or were at most."""
    name = "VmHWM:" if peak else "VmRSS:"
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


if __name__ == "__main__":
    print(json.dumps(asdict(measure_here(json.loads(sys.argv[1])))))
