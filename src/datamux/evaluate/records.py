"""Run records: what was run, with which code, on what machine, and the results, as one JSON file to commit."""

import json
import math
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("datamux", "torch", "transformers", "tokenizers")


def provenance() -> dict[str, Any]:
    """When, with which code, and on what machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "hardware": {"cpu": _cpu(), "cores": os.cpu_count(), "system": platform.system(), **_gpus()},
    }


def make_record(kind: str, *, recipe: dict[str, Any] | None, results: Any, **more: Any) -> dict[str, Any]:
    """A record of one run. `results` is whatever JSON can hold."""
    return {"kind": kind, **provenance(), "recipe": recipe, **more, "results": results}


def write_record(record: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(_rounded(record), indent=1) + "\n")


def read_record(file: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(file.read_text())
    return record


def _rounded(value: Any) -> Any:
    """Round to six figures, which is finer than any of our measurements."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


def _commit() -> str:
    """The commit of this package's own code, if it runs from a checkout."""

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        here = Path(__file__).parents[1]
        return subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True)

    try:
        done = git("rev-parse", "HEAD")
        dirty = git("status", "--porcelain", "-uno", "--", ".")
        return done.stdout.strip() + ("+changes" if dirty.stdout.strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def _gpus() -> dict[str, list[str]]:
    """The names of the GPUs, if the machine has any."""
    import torch

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {"gpus": names} if names else {}
