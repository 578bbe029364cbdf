"""`datamux bench cluster`: the file job with the local engine and with Ray workers, on equal rows and cores."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from datamux.cluster.manifest import fingerprint_of
from datamux.cluster.measured_run import LOCAL, RAY
from datamux.cluster.ray_session import import_ray, model_for_workers
from datamux.evaluate.records import make_record, provenance
from datamux.tasks.task import get_task, load_split

TEXTS = 40_000  # real texts that rows are made of
SLOWER = 4  # smaller groups are slower, so they get this many times fewer rows
LOCAL_ROWS = 1_000_000  # at most, because the local engine holds all rows in memory at its end
Tell = Callable[[str], None]
Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run: so many rows, with one engine, on as many cores as there are workers."""

    rows: int
    group_size: int
    engine: str
    workers: int
    round: int = 1

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows, {self.group_size} texts per pass, engine {self.engine}, {self.workers} cores, "
            f"round {self.round}"
        )


@dataclass(frozen=True)
class Plan:
    """What is measured.

    The largest group size runs `rows` rows with every number of workers, `rounds` times. With the most workers it then
    runs each of `more_rows`, and every smaller group size runs fewer rows, once.
    """

    model: str
    group_sizes: Sequence[int]
    rows: int = 100_000
    more_rows: Sequence[int] = ()
    workers: Sequence[int] = (1, 2)
    rounds: int = 3
    task: str = "sst2"
    data_dir: str | None = None

    def runs(self) -> list[Run]:
        """The shortest first. Engines take turns, so that a machine that is slow for a while slows down both."""
        *smaller, largest = sorted(set(self.group_sizes))
        engines, most = (LOCAL, RAY), max(self.workers)
        found = [
            Run(self.rows, largest, engine, workers, number)
            for number in range(1, self.rounds + 1)
            for workers in self.workers
            for engine in engines
        ]
        found += [Run(max(1, self.rows // SLOWER), size, engine, most) for size in smaller for engine in engines]
        found += [
            Run(rows, largest, engine, most)
            for rows in sorted(self.more_rows)
            for engine in engines
            if engine == RAY or rows <= LOCAL_ROWS
        ]
        return found


def measure_cluster(plan: Plan, tell: Tell = lambda text: None, journal: Path | None = None) -> Record:
    """Run everything in turn, each in a process of its own; returns a record.

    Finished runs are kept in `journal` until the end, so that a measurement that was interrupted goes on with the next.
    """
    version = import_ray().__version__  # says so at once if Ray is missing
    settings = {"model": plan.model, "task": plan.task, "texts": f"{plan.task} train, words shuffled", "ray": version}
    about = provenance()
    machine = {name: about[name] for name in ("versions", "hardware")}
    kept = Journal(journal, {**settings, **machine, "fingerprint": fingerprint_of(plan.model)})
    results: list[Record] = []
    with tempfile.TemporaryDirectory(prefix="datamux-bench-") as place:
        for number, run in enumerate(plan.runs()):
            found = kept.find(run)
            tell(f"{run}{'' if found is None else ': measured before'}")
            if found is None:
                source = Path(place) / f"{run.rows}.jsonl"
                if not source.exists():
                    _write(source, run.rows, plan)
                found = _run(run, model_for_workers(plan.model), source, Path(place) / f"out-{number}")
                found["commit"] = about["commit"]
                kept.add(run, found)
            results.append({**asdict(run), **found})
    record = make_record("cluster", recipe=None, settings=settings, results=results)
    kept.remove()
    return record


class Journal:
    """The runs that an interrupted measurement has finished, one line each, after a line that says what is measured.

    A journal of another model or machine is begun anew, because its runs cannot be compared with those to come.
    """

    def __init__(self, file: Path | None, about: Record) -> None:
        self.file = file
        self.found: dict[str, Record] = {}
        if file is None:
            return
        first = json.dumps(about)
        lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
        if lines[:1] == [first]:
            for line in lines[1:-1]:  # the last one is empty, or was not written to its end
                self.found |= json.loads(line)
        text = [first, *(json.dumps({run: row}) for run, row in self.found.items())]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(text) + "\n", encoding="utf-8")

    def find(self, run: Run) -> Record | None:
        return self.found.get(str(run))

    def add(self, run: Run, found: Record) -> None:
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({str(run): found}) + "\n")

    def remove(self) -> None:
        if self.file is not None:
            self.file.unlink()


def _run(run: Run, model: str, source: Path, output: Path) -> Record:
    """What the run took. The output is removed, because that of ten million rows takes gigabytes."""
    given: Record = {"model": model, "source": str(source), "output": str(output)}
    given |= {"engine": run.engine, "workers": run.workers, "group_size": run.group_size}
    words = [sys.executable, "-m", "datamux.cluster.measured_run", json.dumps(given)]
    threads = run.workers if run.engine == LOCAL else 1
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: Record = json.loads(done.stdout.splitlines()[-1])
    if found["rows"] != run.rows:
        raise ValueError(f"{run}: only {found['rows']:,} rows were answered")
    written = _bytes_of(output)
    for file in output.parent.glob(f"{output.name}*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    return {
        **found,
        "bytes_per_text": source.stat().st_size / run.rows,
        "bytes_out_per_text": written / run.rows,
        "texts_per_second": found["rows"] / found["working"],
    }


def _bytes_of(output: Path) -> int:
    """Of the rows that were written: parts in a folder, or one file."""
    parts = output.glob("part-*") if output.is_dir() else [output.with_name(f"{output.name}.jsonl")]
    return sum(part.stat().st_size for part in parts)


def _write(file: Path, rows: int, plan: Plan) -> None:
    texts = list(load_split(get_task(plan.task), "train", plan.data_dir).first(TEXTS).texts)
    with file.open("w", encoding="utf-8") as lines:
        for number, text in enumerate(synthetic_texts(texts, rows)):
            lines.write(json.dumps({"id": number, "text": text}) + "\n")


def synthetic_texts(texts: Sequence[str], rows: int, seed: int = 0) -> Iterator[str]:
    """Real texts again and again, each time with their words in another order.

    Equal texts of a window are run only once. Here they are few: short texts repeat, but mostly in another window.
    """
    chance = random.Random(seed)
    for text in islice(cycle(texts), rows):
        words = text.split()
        chance.shuffle(words)
        yield " ".join(words)
