"""What a job is, written down once when it begins. A run that goes on with it must find the same input and model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from datamux.cluster.names import BEGUN, DONE, ERRORS, MANIFEST, RUN, is_of_another_plan, marks_of
from datamux.cluster.shards import Shard
from datamux.cluster.sources import SourceFile
from datamux.cluster.storage import OutputFolder
from datamux.hub.frozen import base_model_of
from datamux.hub.loading import load_config
from datamux.inference.journal import OF_A_MODEL
from datamux.zoo import find_model

CHUNK = 1 << 20


@dataclass(frozen=True)
class Settings:
    """What the answers depend on, besides the input."""

    model: str
    text: Sequence[str] = ("text",)
    group_size: int | None = None
    prefix: str = "predicted_"
    format: str = "parquet"
    bf16: bool = False
    fingerprint: str = ""  # of the model's files

    def about(self, files: Sequence[SourceFile]) -> dict[str, Any]:
        return {
            "model": self.fingerprint,
            "text": list(self.text),
            "group_size": self.group_size,
            "prefix": self.prefix,
            "format": self.format,
            "bf16": self.bf16,
            "source": [[file.url, file.size, file.stamp] for file in files],
        }


@dataclass(frozen=True)
class Plan:
    """The shards of a job. Every plan has an id of its own, also if it has the same shards as another one."""

    id: str
    shards: list[Shard]


def open_plan(
    output: OutputFolder, settings: Settings, files: Sequence[SourceFile], shard_bytes: int | None = None
) -> Plan | None:
    """The plan that an earlier run has made; None if there is none to go on with.

    Another job's plan is an error, unless nothing of it is done: then a mistake in the command can be corrected.
    """
    then = output.read_json(MANIFEST)
    if then is None:
        if set(output.names("")) - {"_job"}:
            raise ValueError(f"{output.url} is not empty, and no job of this kind began it; choose another folder")
        return None
    if "plan" not in then:
        raise ValueError(f"{output.url} was begun by another version of datamux; choose another folder")
    problem = _difference(output, settings.about(files), shard_bytes, then)
    if not problem:
        return Plan(then["plan"], [Shard(**shard) for shard in then["shards"]])
    if output.names(marks_of(then["plan"])):
        raise ValueError(problem)
    return None


def _difference(output: OutputFolder, now: dict[str, Any], shard_bytes: int | None, then: dict[str, Any]) -> str:
    """Why a manifest is not that of this job; empty if it is."""
    others = [name for name in now if then["about"].get(name) != now[name]]
    if others:
        return (
            f"{output.url} was begun with another {', '.join(others)}; choose another output folder, "
            "remove that one to start anew, or repeat the command that began it to go on"
        )
    if shard_bytes not in (None, then.get("shard_bytes")):
        return (
            f"{output.url} was begun with shards of another size; leave --shard-mb out to go on with those, "
            "or choose another output folder"
        )
    return ""


def begin_plan(
    output: OutputFolder,
    settings: Settings,
    files: Sequence[SourceFile],
    shards: list[Shard],
    shard_bytes: int | None = None,
) -> Plan:
    """Write down the plan of a job."""
    plan = Plan(uuid4().hex[:8], shards)
    found = {
        "plan": plan.id,
        "about": settings.about(files),
        "shard_bytes": shard_bytes,
        "shards": [shard.to_dict() for shard in shards],
    }
    output.publish(json.dumps(found).encode(), MANIFEST)
    return plan


def take_over(output: OutputFolder, run: str, plan: str | None = None) -> None:
    """Say which run may write: workers of earlier ones stop. With the plan, they also remove what was not to be."""
    output.publish(json.dumps({"run": run, "plan": plan}).encode(), RUN)


def remove_other_plans(output: OutputFolder, plan: str) -> None:
    """Remove the parts, bad rows and marks of other plans, so that no row is there twice.

    Call it after `take_over` with the plan: a worker of an earlier run removes what it publishes later. If another run
    has taken over since, these may be its parts, and nothing is removed.
    """
    if (output.read_json(RUN) or {}).get("plan") != plan:
        return
    for folder in ("", ERRORS):
        for name in output.names(folder):
            if is_of_another_plan(name, plan):
                output.remove(f"{folder}/{name}".lstrip("/"))
    for folder in (DONE, BEGUN):
        for name in output.names(folder):
            if name != plan:
                output.remove(f"{folder}/{name}")


def fingerprint_of(model: str) -> str:
    """What tells a model apart from others: the content of its files, or its commit on the Hub.

    Names, dates and places do not count: every machine of a cluster may have its own copy.
    """
    folder = Path(find_model(model))
    if not folder.is_dir():
        return str(load_config(model)._commit_hash)
    digest = sha256()
    for file in sorted({file for pattern in OF_A_MODEL for file in folder.glob(pattern)}):
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
        with file.open("rb") as handle:
            while part := handle.read(CHUNK):
                digest.update(part)
    if base := base_model_of(folder):  # single texts are answered by it alone
        digest.update(fingerprint_of(base).encode())
    return digest.hexdigest()
