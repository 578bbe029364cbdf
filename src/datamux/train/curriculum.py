"""How many instances share a pass at each step of training.

The group size starts small and grows when the model copes, which means that its retrieval accuracy rises above a
threshold, or its task loss falls below one. A share of the steps uses a smaller size, drawn at random with a uniform
logarithm (1 to 2 is as likely as 10 to 20), so that one checkpoint serves every size up to the capacity.
"""

import math
import random
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from transformers import TrainerCallback, TrainerControl
from transformers.trainer_callback import ExportableState


@dataclass
class Curriculum:
    """The group size over the steps of a training run.

    `grow_when` is "above" if the curriculum watches an accuracy, and "below" if it watches a loss. By the step
    `deadline` the size is the capacity, even if the model does not cope; each size before it is due in proportion.
    No step has a smaller size than `smallest`.
    """

    capacity: int
    start: int = 2
    growth: float = 1.5
    threshold: float = 0.85
    grow_when: Literal["above", "below"] = "above"
    window: int = 10
    elastic: float = 0.2
    smallest: int = 1
    deadline: int | None = None
    seed: int = 0
    size: int = field(init=False)
    history: list[float] = field(default_factory=list, init=False)
    reached: dict[int, int] = field(default_factory=dict, init=False)  # size -> the step at which it was reached

    def __post_init__(self) -> None:
        if not self.smallest <= self.start <= self.capacity:
            raise ValueError(f"start must be {self.smallest} to {self.capacity} (the capacity), got {self.start}")
        self.size = self.start
        self.reached[self.size] = 0

    def draw(self, step: int) -> int:
        """The group size of a step. It depends only on step and seed, so every restart draws the same."""
        chance = random.Random(self.seed * 1_000_003 + step)
        if chance.random() < self.elastic:
            return max(self.smallest, round(math.exp(chance.random() * math.log(self.size))))
        return self.size

    def observe(self, step: int, group_size: int, value: float) -> None:
        """Record the watched value of a step, and grow if it is time to."""
        if group_size == self.size:
            self.history = [*self.history, value][-self.window :]
        if self.size < self.capacity and (self._copes() or self._is_due(step)):
            self.size = min(self.capacity, max(self.size + 1, int(self.size * self.growth)))
            self.history = []
            self.reached[self.size] = step + 1

    def _copes(self) -> bool:
        if len(self.history) < self.window:
            return False
        mean = fmean(self.history)
        return mean > self.threshold if self.grow_when == "above" else mean < self.threshold

    def _is_due(self, step: int) -> bool:
        if self.deadline is None:
            return False
        return step >= self.deadline * (self.size + 1 - self.start) / max(1, self.capacity + 1 - self.start)

    def state(self) -> dict[str, Any]:
        return {"size": self.size, "history": self.history, "reached": {str(k): v for k, v in self.reached.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        self.size, self.history = state["size"], list(state["history"])
        self.reached = {int(size): step for size, step in state["reached"].items()}


class CurriculumState(TrainerCallback, ExportableState):
    """Saves the curriculum in the Trainer's checkpoints, so that a restarted run continues with the same group size."""

    def __init__(self, curriculum: Curriculum) -> None:
        self.curriculum = curriculum

    def state(self) -> dict[str, Any]:
        return {"args": {}, "attributes": self.curriculum.state()}

    def on_train_begin(self, args: Any, state: Any, control: TrainerControl, **kwargs: Any) -> None:
        saved = state.stateful_callbacks.get(type(self).__name__)
        if state.global_step and saved:
            self.curriculum.restore(saved["attributes"])
