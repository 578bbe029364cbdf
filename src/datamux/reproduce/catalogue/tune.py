"""`datamux tune` with a pretrained encoder on four tasks: the fastest model within one point of it, on two cores.

Training rows are split by `tune` itself. The validation rows choose (banking77 and QQP have none to spare: a part of
their training rows does), and the test rows play no part before the end. QQP has no test labels: its validation rows
are the test.
"""

from dataclasses import dataclass

from datamux.reproduce.experiment import Experiment


@dataclass(frozen=True)
class Aim:
    """For one point, `speed` times the throughput of the reference, which was known to have `score` on some rows."""

    score: float
    speed: float
    scored_on: str


AIMS = {
    "sst2": Aim(89.8, 4.0, "on the validation and test rows together"),
    "banking77": Aim(93.1, 3.0, "on the test rows"),
    "conll2003": Aim(85.5, 2.5, "on the test rows"),
    "qqp": Aim(83.9, 2.0, "on the validation rows"),
}
COLUMNS = ("--text", "question1", "--text", "question2", "--label", "label")
BUDGETS = {"sst2": "40m", "banking77": "30m", "conll2003": "40m", "qqp": "70m"}


def _tuned(task: str) -> Experiment:
    settings = {"encoder": "{encoder}", "max-drop": 1, "budget": BUDGETS[task]}
    if task == "qqp":
        train, test = "{texts/qqp-train}", "{texts/qqp-validation}"
        return Experiment("tune", task, "tune", settings=settings, train_file=train, task=test, columns=COLUMNS)
    return Experiment("tune", task, "tune", settings=settings, task=task)


TUNE = tuple(_tuned(task) for task in AIMS)
