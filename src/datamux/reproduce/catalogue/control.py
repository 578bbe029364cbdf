"""Does a model read the mixture? Each row gets its neighbour's part of it, and the score should fall to guessing."""

from typing import Any

from datamux.reproduce.experiment import Experiment


def _control(task: str, model: str, n: int, retired: bool) -> Experiment:
    settings = {"model": f"{{{task}/{model}}}"}
    options: dict[str, Any] = {"options": ("--answer-from-neighbour",), "group_sizes": (n,), "groupings": 1}
    family = model.partition("-")[0]
    about: dict[str, Any] = {"family": family, "n": n, "task": task, "retired": retired}
    return Experiment("neighbour-control", f"{task}-{model}", "evaluate", settings=settings, **about, **options)


CONTROL = tuple(
    _control(task, f"{model}{bypass}", n, bool(bypass))
    for task, model, n in (
        ("sst2", "minilm-n10-mux-layer-2", 10),
        ("banking77", "minilm-n10-mux-layer-2", 10),
        ("sst2", "scratch-n20", 20),
        ("conll2003", "scratch-n20", 20),
    )
    for bypass in ("", "-bypass")
)
