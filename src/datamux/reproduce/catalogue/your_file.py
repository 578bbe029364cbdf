"""A file of your own, as in the quickstart: one command, no recipe.

Tried on banking77 (77 labels), and for tags on WNUT-17 (few sentences) and CoNLL-2003 (many). Two files are smaller,
as a user's often is: 1,000 rows of banking77, and 5,000 sentences and phrases of SST-2. They have the test rows of the
whole data set.

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
    "banking77-1000": ("--text", "text", "--label", "label"),
    "sst2-5000": ("--text", "sentence", "--label", "label"),
}
SCRATCH = ("banking77", "wnut17")  # CoNLL-2003 has recipes of its own from scratch


def _experiment(data: str, name: str, recipe: str, n: int, settings: dict[str, Any]) -> Experiment:
    """One model of a file: it learns from its training rows, all or some, and is scored on all test rows."""
    test = f"{{texts/{data.partition('-')[0]}-test}}"
    about: dict[str, Any] = {"task": test, "train_file": f"{{texts/{data}-train}}", "columns": COLUMNS[data]}
    return Experiment("your-file", f"{data}-{name}", "train", recipe, settings, "your-file", n, **about)


def _yours(data: str, name: str, n: int = 1, settings: dict[str, Any] = {}) -> Experiment:  # noqa: B006
    return _experiment(data, name, "small/your-file" if n > 1 else "small/your-file-plain", n, settings)


def _smaller(data: str, layers: int) -> Experiment:
    plain = f"{{your-file/{data}-plain}}"
    teacher = {"model.tokenizer": plain, "task.teacher": plain, "task.distill_logits": 0.7}
    return _yours(data, f"plain-{layers}l-256h", settings={"model.layers": layers} | teacher)


def _started(data: str, start: str, n: int) -> Experiment:
    """What one command gives: from the encoder in the package, or from a pretrained one."""
    recipe = {"encoder": "small/your-file-encoder", "minilm": "small/your-file-pretrained"}[start]
    settings: dict[str, Any] = {"model.start": "{encoder}"} if start == "minilm" else {}
    name = f"{start}-n{n}"
    if n == 1:
        name = f"{start}-plain"
        recipe = "small/your-file-encoder-plain"
        settings |= {"task.learning_rate": 1e-4} if start == "minilm" else {}
    return _experiment(data, name, recipe, n, settings)


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
