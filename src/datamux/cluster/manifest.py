"""What a job is, written down once when it begins. A run that goes on with it must find the same input and model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from datamux.cluster.shards import Shard
from datamux.cluster.sources import SourceFile
from datamux.cluster.storage import DONE, ERRORS, PART, OutputFolder
from datamux.hub.frozen import base_model_of
from datamux.hub.loading import load_config
from datamux.inference.journal import OF_A_MODEL
from datamux.zoo import find_model

MANIFEST = "_job/manifest.json"
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


def open_manifest(
    output: OutputFolder, settings: Settings, files: Sequence[SourceFile], shard_bytes: int | None = None
) -> list[Shard] | None:
    """The shards that an earlier run has chosen; None if there was none, or if it has done nothing.

    Another job's manifest is an error, unless it has done nothing: then a mistake in the command can be corrected.
    """
    then = output.read_json(MANIFEST)
    if then is None:
        if set(output.names("")) - {"_job"}:
            raise ValueError(f"{output.url} is not empty, and no job of this kind began it; choose another folder")
        return None
    if not output.names(DONE):
        return None
    now = settings.about(files)
    others = [name for name in now if then["about"].get(name) != now[name]]
    if others:
        raise ValueError(
            f"{output.url} was begun with another {', '.join(others)}; choose another output folder, "
            "remove that one to start anew, or repeat the command that began it to go on"
        )
    if shard_bytes not in (None, then.get("shard_bytes")):
        raise ValueError(
            f"{output.url} was begun with shards of another size; leave --shard-mb out to go on with those, "
            "or choose another output folder"
        )
    return [Shard(**shard) for shard in then["shards"]]


def write_manifest(
    output: OutputFolder,
    settings: Settings,
    files: Sequence[SourceFile],
    shards: Sequence[Shard],
    shard_bytes: int | None = None,
) -> None:
    """Begin a job. What a run has left that did nothing to the end is removed."""
    for name in output.names(""):
        if name == ERRORS or name.startswith(PART):
            output.remove(name)
    found = {"about": settings.about(files), "shard_bytes": shard_bytes, "shards": [one.to_dict() for one in shards]}
    output.publish(json.dumps(found).encode(), MANIFEST)


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
