"""`datamux bench cluster`: the file job with the local engine and with one and more Ray workers, on equal rows."""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from datamux.cluster.measured_run import LOCAL, RAY
from datamux.cluster.ray_session import import_ray, model_for_workers
from datamux.evaluate.records import make_record
from datamux.tasks.task import get_task, load_split

TEXTS = 40_000  # real texts that rows are made of
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is measured: each group size with `rows` rows, and the largest one with each of `more_rows`, too."""

    model: str
    group_sizes: Sequence[int]
    rows: int = 100_000
    more_rows: Sequence[int] = ()
    workers: Sequence[int] = (1, 2)
    task: str = "sst2"
    data_dir: str | None = None

    def runs(self) -> list[tuple[int, int, str, int]]:
        """(rows, group size, engine, workers). The local engine runs with one thread, as each worker does."""
        sizes = [(self.rows, size) for size in self.group_sizes]
        sizes += [(rows, max(self.group_sizes)) for rows in self.more_rows]
        engines = [(LOCAL, 1), *((RAY, workers) for workers in self.workers)]
        return [(rows, size, engine, workers) for rows, size in sizes for engine, workers in engines]


def measure_cluster(plan: Plan, tell: Tell = lambda text: None) -> dict[str, Any]:
    """Run everything in turn, each in a process of its own; returns a record."""
    import_ray()  # says so at once if it is missing
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="datamux-bench-") as place:
        files = {rows: _write(Path(place) / f"{rows}.jsonl", rows, plan) for rows in {plan.rows, *plan.more_rows}}
        for number, (rows, group_size, engine, workers) in enumerate(plan.runs()):
            tell(f"{rows:,} rows, {group_size} texts per pass, {engine}, {workers} workers")
            found = _run(
                engine=engine,
                model=model_for_workers(plan.model),
                source=str(files[rows]),
                output=f"{place}/out-{number}",
                workers=workers,
                group_size=group_size,
            )
            about = {"engine": engine, "workers": workers, "group_size": group_size, **found}
            results.append({**about, "texts_per_second": found["rows"] / found["working"]})
        bytes_per_text = files[plan.rows].stat().st_size / plan.rows
    settings = {
        "model": plan.model,
        "task": plan.task,
        "rows": plan.rows,
        "more_rows": list(plan.more_rows),
        "bytes_per_text": bytes_per_text,
        "ray": import_ray().__version__,
    }
    return make_record("cluster", recipe=None, settings=settings, results=results)


def _run(**given: Any) -> dict[str, Any]:
    words = [sys.executable, "-m", "datamux.cluster.measured_run", json.dumps(given)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _write(file: Path, rows: int, plan: Plan) -> Path:
    texts = list(load_split(get_task(plan.task), "train", plan.data_dir).first(TEXTS).texts)
    with file.open("w", encoding="utf-8") as lines:
        for number, text in enumerate(synthetic_texts(texts, rows)):
            lines.write(json.dumps({"id": number, "text": text}) + "\n")
    return file


def synthetic_texts(texts: Sequence[str], rows: int, seed: int = 0) -> Iterator[str]:
    """Real texts again and again, each time with their words in another order: equal texts would be run only once."""
    chance = random.Random(seed)
    for text in islice(cycle(texts), rows):
        words = text.split()
        chance.shuffle(words)
        yield " ".join(words)
