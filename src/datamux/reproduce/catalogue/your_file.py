"""A file of your own, as in the quickstart: one command, no recipe.

Tried on banking77 (77 labels), and for tags on WNUT-17 (few sentences) and CoNLL-2003 (many).

From scratch, beside the mixed model stand the plain one and two smaller plain ones that learn from it. From the encoder
in the package (`datamux train --train FILE`) and from MiniLM (`--start minilm`), the plain model is the one that the
command itself trains first, and one that gets as many steps as both together.
"""

from typing import Any

from datamux.reproduce.experiment import Experiment

COLUMNS = {
    "banking77": ("--text", "text", "--label", "label"),
    "wnut17": ("--text", "tokens", "--label", "ner_tags"),
    "conll2003": ("--text", "tokens", "--label", "ner_tags"),
}
SCRATCH = ("banking77", "wnut17")  # CoNLL-2003 has recipes of its own from scratch


def _yours(data: str, name: str, n: int = 1, settings: dict[str, Any] = {}) -> Experiment:  # noqa: B006
    files: dict[str, Any] = {"task": f"{{texts/{data}-test}}", "train_file": f"{{texts/{data}-train}}"}
    recipe = "small/your-file" if n > 1 else "small/your-file-plain"
    about: dict[str, Any] = {"family": "your-file", "n": n, "columns": COLUMNS[data]}
    return Experiment("your-file", f"{data}-{name}", "train", recipe, settings, **about, **files)


def _smaller(data: str, layers: int) -> Experiment:
    plain = f"{{your-file/{data}-plain}}"
    teacher = {"model.tokenizer": plain, "task.teacher": plain, "task.distill_logits": 0.7}
    return _yours(data, f"plain-{layers}l-256h", settings={"model.layers": layers} | teacher)


def _started(data: str, start: str, n: int) -> Experiment:
    """What one command gives: from the encoder in the package, or from a pretrained one."""
    recipe = {"encoder": "small/your-file-encoder", "minilm": "small/your-file-pretrained"}[start]
    files: dict[str, Any] = {"task": f"{{texts/{data}-test}}", "train_file": f"{{texts/{data}-train}}"}
    settings: dict[str, Any] = {"model.start": "{encoder}"} if start == "minilm" else {}
    name = f"{data}-{start}-n{n}"
    if n == 1:
        name = f"{data}-{start}-plain"
        recipe = "small/your-file-encoder-plain"
        settings |= {"task.learning_rate": 1e-4} if start == "minilm" else {}
    about: dict[str, Any] = {"family": "your-file", "n": n, "columns": COLUMNS[data]}
    return Experiment("your-file", name, "train", recipe, settings, **about, **files)


YOUR_FILE = (
    *(
        experiment
        for data in SCRATCH
        for experiment in (
            *(_yours(data, "plain"), _smaller(data, 1), _smaller(data, 0), _yours(data, "n10", 10)),
            *(_started(data, "minilm", n) for n in (1, 10)),
        )
    ),
    *(_started(data, "encoder", n) for data in COLUMNS for n in (1, 10)),
)
