"""How many instances share a pass at each step of training.

Starts small and grows when the model copes: retrieval accuracy above a threshold, or task loss below it. A share of
the steps uses a smaller size at random (its logarithm is uniform: 1 to 2 is as far as 10 to 20), so that one checkpoint
serves every size up to the capacity.
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
    """`grow_when`: "above" for an accuracy, "below" for a loss. `deadline`: the step by which the capacity is reached
    whatever the model does; sizes on the way are due in proportion.
    """

    capacity: int
    start: int = 2
    growth: float = 1.5
    threshold: float = 0.85
    grow_when: Literal["above", "below"] = "above"
    window: int = 10
    elastic: float = 0.2
    deadline: int | None = None
    seed: int = 0
    size: int = field(init=False)
    history: list[float] = field(default_factory=list, init=False)
    reached: dict[int, int] = field(default_factory=dict, init=False)  # size -> step at which it was reached

    def __post_init__(self) -> None:
        self.start = max(1, min(self.start, self.capacity))
        self.size = self.start
        self.reached[self.size] = 0

    def draw(self, step: int) -> int:
        """The group size of this step: the same for the same step, in every process and after a restart."""
        chance = random.Random(self.seed * 1_000_003 + step)
        if chance.random() < self.elastic:
            return round(math.exp(chance.random() * math.log(self.size)))
        return self.size

    def observe(self, step: int, group_size: int, value: float) -> None:
        """Take note of how a step went, and grow if it is time."""
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
    """Keeps the curriculum in the Trainer's checkpoints, so that a restart goes on where it was."""

    def __init__(self, curriculum: Curriculum) -> None:
        self.curriculum = curriculum

    def state(self) -> dict[str, Any]:
        return {"args": {}, "attributes": self.curriculum.state()}

    def on_train_begin(self, args: Any, state: Any, control: TrainerControl, **kwargs: Any) -> None:
        saved = state.stateful_callbacks.get(type(self).__name__)
        if state.global_step and saved:
            self.curriculum.restore(saved["attributes"])
