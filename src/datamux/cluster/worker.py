"""Answers shard after shard with one model, as `datamux predict` answers a file. Ray Data runs it in an actor."""

import json
import re
import tempfile
import time
from pathlib import Path
from socket import gethostname
from typing import Any
from uuid import uuid4

from datamux.cluster.cutting import copy_of, cut_out
from datamux.cluster.manifest import Settings, fingerprint_of
from datamux.cluster.names import RUN, bad_rows_of, mark_of, part_of, tries_of
from datamux.cluster.shards import BYTES, ROWS, Shard
from datamux.cluster.storage import OutputFolder
from datamux.inference.files import errors_of, predict_file
from datamux.inference.predictor import Predictor, load
from datamux.inference.runtime import MEMORY

TRIES = 5  # Ray starts a shard again when its worker dies; a shard that kills every worker must not go on for ever
Batch = dict[str, list[Any]]


class MustStop(Exception):
    """The run cannot go on: another one writes, or a machine does not see the output folder or cannot load the model.

    A machine without the model would otherwise fail one shard after another, faster than others can answer them.
    """


class ShardWorker:
    """A callable class for `map_batches`: descriptions of shards in, what became of them out.

    `plan` is the id of the plan that the shards are of, and `run` the run that it works for; another one may take over
    the output. `prepared` is a predictor for tests; otherwise the model is loaded at the first shard.
    """

    def __init__(
        self,
        settings: Settings,
        output: str,
        *,
        plan: str,
        run: str | None = None,
        threads: int = 1,
        device: str | None = None,
        memory: int = MEMORY,
        prepared: Predictor | None = None,
    ) -> None:
        self.settings = settings
        self.output = OutputFolder(output)
        self.plan = plan
        self.run = run
        self.threads = threads
        self.device = device
        self.memory = memory
        self._predictor = prepared
        self._name = uuid4().hex

    def __call__(self, batch: Batch) -> Batch:
        found = [self.answer(Shard(**json.loads(shard))) for shard in batch["shard"]]
        return {"found": [json.dumps(one) for one in found]}

    def answer(self, shard: Shard) -> dict[str, Any]:
        """Answer a shard and publish its part. A problem is reported, not raised: it must not end the whole job."""
        began = time.time()
        with tempfile.TemporaryDirectory(prefix="datamux-") as place:
            try:
                self._check_run()
                self._count_try(shard)  # before the model is loaded, which may kill the worker, too
                self._load()
                began = time.time()  # without the time that loading took
                about = self._answer(shard, Path(place))
            except MustStop as error:
                about = {"problem": str(error), "stop": True}
            except Exception as error:
                about = {"problem": _told(error, shard, Path(place))}
        return {"number": shard.number, "worker": self._name, "began": began, "ended": time.time(), **about}

    def _answer(self, shard: Shard, folder: Path) -> dict[str, Any]:
        settings = self.settings
        source, part = cut_out(shard, folder), folder / f"part.{settings.format}"
        done = predict_file(
            self.predictor(),
            source,
            part,
            text=settings.text,
            group_size=settings.group_size,
            prefix=settings.prefix,
            piece=True,
        )
        self._check_run()
        if done.bad:
            self._publish_errors(shard, errors_of(part))
        if done.rows:
            self.output.publish(part, part_of(self.plan, shard.name, settings.format))
        self._check_run(shard)
        # Last, and with the counts in its name: a shard counts as done when everything else is in its place.
        self.output.publish(self._name.encode(), mark_of(self.plan, shard.name, done.rows, done.bad))
        self.output.remove(tries_of(self.plan, shard.name))
        return {"rows": done.rows, "bad": done.bad, "problems": [f"{shard.url}, {text}" for text in done.problems]}

    def _check_run(self, published: Shard | None = None) -> None:
        """Only the last run may write; buckets have no locks.

        What was published is removed if that run has another plan. If it has none yet, it will remove it itself.
        """
        if self.run is None:
            return
        last = self.output.read_json(RUN)
        if last is None:
            raise MustStop(
                f"a machine of the cluster does not see the output folder {self.output.url}; "
                "choose one that all machines share, or a bucket"
            )
        if last["run"] == self.run:
            return
        if published is not None and last["plan"] not in (None, self.plan):
            self.output.remove(bad_rows_of(self.plan, published.name))
            self.output.remove(part_of(self.plan, published.name, self.settings.format))
        raise MustStop(f"another run has taken over {self.output.url}; wait for it to end, or stop it")

    def _count_try(self, shard: Shard) -> None:
        """Note that this shard was begun. Its notes go when it is done, and all notes when the job is started again."""
        notes = tries_of(self.plan, shard.name)
        if len(self.output.names(notes)) >= TRIES:
            raise ValueError(
                f"its worker died {TRIES} times; is there enough memory? Use fewer workers (--concurrency), "
                "or another output folder and a smaller --shard-mb"
            )
        self.output.publish(b"", f"{notes}/{uuid4().hex}")

    def _publish_errors(self, shard: Shard, file: Path) -> None:
        """The bad rows, each with the file that it comes from.

        Rows are counted from the first of the file. Where a shard is a range of bytes, that number is not known: there
        they are counted from the first row of the shard, and `first_byte` says where it begins.
        """
        place: dict[str, Any] = {"file": shard.url}
        if shard.cut == BYTES:
            place["first_byte"] = shard.start
        before = shard.start if shard.cut == ROWS else 0
        with file.open(encoding="utf-8") as lines:
            bad = [place | line | {"row_number": line["row_number"] + before} for line in map(json.loads, lines)]
        text = "".join(json.dumps(line) + "\n" for line in bad)
        self.output.publish(text.encode(), bad_rows_of(self.plan, shard.name))

    def _load(self) -> None:
        try:
            self.predictor()
        except Exception as error:
            raise MustStop(f"the machine {gethostname()} cannot load the model: {error}") from error

    def predictor(self) -> Predictor:
        """The model, loaded once. It must be the one that the job began with."""
        if self._predictor is None:
            import torch

            torch.set_num_threads(self.threads)
            settings = self.settings
            if fingerprint_of(settings.model) != settings.fingerprint:
                raise ValueError(f"the model {settings.model} on this machine is not the one that the job began with")
            self._predictor = load(settings.model, device=self.device, bf16=settings.bf16, memory=self.memory)
        return self._predictor


def _told(error: Exception, shard: Shard, folder: Path) -> str:
    """What went wrong, with the file of the input. Its copy in a temporary folder means nothing to the user."""
    text = str(error).replace(str(copy_of(shard, folder)), shard.url)
    text = re.sub(re.escape(str(folder)) + r"[^\s'\",:]*", "a temporary file", text)
    if not isinstance(error, ValueError | OSError):
        text = f"{type(error).__name__}: {text}"
    return text if shard.url in text else f"{shard.url}: {text}"
