"""A contender before it is trained: what is special about its recipe. All have the same teacher and the same texts."""

from dataclasses import dataclass, field
from typing import Any

from datamux.evaluate.row_scores import MACRO_F1, Metric
from datamux.train.recipe import Recipe, parse_recipe

Section = dict[str, Any]


class LeftOut(ValueError):
    """A family cannot take part; the message says why."""


@dataclass(frozen=True)
class Contender:
    """`model` and `task` are settings of a recipe. `sizes` are the group sizes at which it is measured.

    `epochs`: no rung trains for more than this many passes over the rows, because more would not help.
    """

    name: str
    family: str
    model: Section
    task: Section = field(default_factory=dict)
    sizes: tuple[int, ...] = (1,)
    epochs: float = 12.0

    @property
    def rows_per_step(self) -> int:
        n = int(self.model.get("num_instances", 1))
        return max(int(self.task.get("groups") or PLAIN["groups"]) * n, int(self.task.get("min_rows", 0)))


# A plain contender, which learns from the reference; and what a mixed one changes.
PLAIN: Section = {"groups": 64, "min_rows": 64, "learning_rate": 2e-4, "alpha": 0.0, "elastic": 0.0}
PLAIN_MODEL: Section = {
    "num_instances": 1,
    "multiplexer": "identity",
    "multiplexer_options": {},
    "demultiplexer": "identity",
}
MIXED: Section = {
    "groups": 12,
    "min_rows": 32,
    "alpha": 0.0,
    "consistency": 1.0,
    "start_size": 1,
    "elastic": 0.5,
}
MIXED_MODEL: Section = {
    "num_instances": 10,
    "multiplexer": "sign",
    "demultiplexer": "gate",
    "demultiplexer_options": {"hidden_dim": 1536, "linear": True},
}
FROM_TEACHER: Section = {"distill_logits": 0.7}
EVALUATIONS = 5  # in one training


def recipe_of(
    contender: Contender,
    *,
    steps: int,
    teacher: str,
    max_tokens: int,
    start: str = "",
    unlabelled: str = "",
    best_by: str = "score",
    seed: int,
) -> Recipe:
    """The recipe that trains a contender for some steps; `start` is its own model of an earlier rung."""
    model = contender.model | {"max_tokens": max_tokens}
    given = {"steps": steps, "teacher": teacher, "unlabelled": unlabelled, "best_by": best_by}
    task = FROM_TEACHER | contender.task | given
    if start:
        model |= {"start": start, "keep_layers": 0}
        task |= {"start_size": "capacity"}
    data = {"model": model, "task": task | {"patience": EVALUATIONS + 1}, "run": run_settings(steps, seed)}
    return parse_recipe(data)


def best_by(metric: Metric) -> str:
    """What a recipe calls the metric by which a training keeps its best model."""
    return "macro_f1" if metric.name == MACRO_F1 else "score"


def run_settings(steps: int, seed: int) -> Section:
    every = max(1, -(-steps // EVALUATIONS))
    return {
        "seed": seed,
        "warmup_steps": 50,
        "eval_steps": every,
        "save_steps": every,
        "eval_rows": 1000,
        "group_by_length": True,
        "length_noise": 0.2,
    }
