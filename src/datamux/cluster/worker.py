"""Answers shard after shard with one model, as `datamux predict` answers a file. Ray Data runs it in an actor."""

import json
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from datamux.cluster.cutting import cut_out
from datamux.cluster.manifest import Settings, fingerprint_of
from datamux.cluster.shards import BYTES, ROWS, Shard
from datamux.cluster.storage import BEGUN, DONE, ERRORS, PART, OutputFolder
from datamux.inference.files import errors_of, predict_file
from datamux.inference.predictor import Predictor, load
from datamux.inference.runtime import MEMORY

TRIES = 5  # Ray starts a shard again when its worker dies; a shard that kills every worker must not go on for ever
RUN = "_job/run.json"  # the name of the run that may write
Batch = dict[str, list[Any]]


class TakenOver(Exception):
    """Another run writes into the output folder now."""


class ShardWorker:
    """A callable class for `map_batches`: descriptions of shards in, what became of them out.

    `run` is the run that it works for; another one may take over the output. `prepared` is a predictor for tests;
    otherwise the model is loaded at the first shard.
    """

    def __init__(
        self,
        settings: Settings,
        output: str,
        *,
        run: str | None = None,
        threads: int = 1,
        device: str | None = None,
        memory: int = MEMORY,
        prepared: Predictor | None = None,
    ) -> None:
        self.settings = settings
        self.output = OutputFolder(output)
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
        try:
            self._check_run()
            self._count_try(shard)  # before the model is loaded, which may kill the worker, too
            self.predictor()
            began = time.time()  # without the time that loading took
            about = self._answer(shard)
        except TakenOver as error:
            about = {"problem": str(error), "taken_over": True}
        except Exception as error:
            kind = "" if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: "
            about = {"problem": f"{shard.url}: {kind}{error}" if shard.url not in str(error) else f"{kind}{error}"}
        return {"number": shard.number, "worker": self._name, "began": began, "ended": time.time(), **about}

    def _answer(self, shard: Shard) -> dict[str, Any]:
        settings = self.settings
        with tempfile.TemporaryDirectory(prefix="datamux-") as place:
            folder = Path(place)
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
                self.output.publish(part, part_name(shard, settings))
        # Last, and with the counts in its name: a shard counts as done when everything else is in its place.
        self.output.publish(b"", f"{DONE}/{shard.name}-{done.rows}-{done.bad}")
        self.output.remove(f"{BEGUN}/{shard.name}")
        return {"rows": done.rows, "bad": done.bad, "problems": [f"{shard.url}, {text}" for text in done.problems]}

    def _check_run(self) -> None:
        """Two runs may cut the input into other shards, so only the last one may write. Buckets have no locks."""
        if self.run is not None and self.output.read_json(RUN) != self.run:
            raise TakenOver(f"another run has taken over {self.output.url}; wait for it to end, or stop it")

    def _count_try(self, shard: Shard) -> None:
        """Note that this shard was begun. Its notes go when it is done, and all notes when the job is started again."""
        notes = f"{BEGUN}/{shard.name}"
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
        self.output.publish(text.encode(), f"{ERRORS}/{PART}{shard.name}.jsonl")

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


def part_name(shard: Shard, settings: Settings) -> str:
    return f"{PART}{shard.name}.{settings.format}"
