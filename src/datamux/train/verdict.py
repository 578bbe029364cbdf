"""Is the trained model better than what its user would have tried first? The answer in one line, and as JSON.

The held-out rows decided when training stopped, so the score on them flatters our model by a little. The simple rivals
have no such help. Where a plain encoder was fine-tuned first, to teach the mixed one, its score stands beside them: it
is the model to use where one text per pass is fast enough.
"""

import json
from dataclasses import asdict, dataclass, field
from math import sqrt
from pathlib import Path

from datamux.evaluate.evaluate_model import default_sizes, load_rows
from datamux.evaluate.quality import Quality, flips_of, measure_quality, score
from datamux.inference.loading import load_runtime
from datamux.tasks.examples import Examples
from datamux.tasks.task import Task
from datamux.train.data import task_examples
from datamux.train.recipe import Recipe
from datamux.train.simple_rivals import Rival, simple_rivals
from datamux.zoo import find_model

FILE = "held_out.json"  # beside the model
PACKAGED_ENCODER = "encoder"


@dataclass(frozen=True)
class Verdict:
    """Our scores on the held-out rows at each group size, and those of simple rivals."""

    ours: list[Quality]
    rivals: list[Rival]
    plain: Quality | None = None  # of the plain model that was trained first
    plain_folder: str = ""
    pretrained: bool = False  # whether training started from a pretrained encoder of the user's choice
    left_out: list[str] = field(default_factory=list)  # a sentence for each rival that failed

    @property
    def best_rival(self) -> Rival:
        return max(self.rivals, key=lambda rival: rival.score)

    @property
    def better_up_to(self) -> int:
        """The largest group size at which our model beats every rival at this size and all smaller ones; 0: at none."""
        largest = 0
        for quality in self.ours:
            if quality.score <= self.best_rival.score:
                break
            largest = quality.group_size
        return largest

    def __str__(self) -> str:
        metric = self.ours[0].metric
        rows = self.ours[0].rows
        sizes = [quality for quality in self.ours if quality.group_size in (1, self.ours[-1].group_size)]
        scores = ", ".join(f"{_shown(q.score, metric)} at {_per_pass(q.group_size)}" for q in sizes) + _flips(sizes[-1])
        rivals = "; ".join(f"{rival.name} {_shown(rival.score, metric)}" for rival in self.rivals)
        if self.plain is not None:
            rivals += f"; the plain model that was trained first {_shown(self.plain.score, metric)}"
        left_out = "".join(f" {sentence}." for sentence in self.left_out)
        return (
            f"{metric} on {rows:,} held-out rows, which also decided when to stop: {scores}. "
            f"For comparison: {rivals}.{left_out}\n{self._advice()}"
        )

    def _advice(self) -> str:
        return " ".join(filter(None, [self._beside_rivals(), self._beside_plain()]))

    def _beside_rivals(self) -> str:
        largest, best = self.better_up_to, self.best_rival
        if largest == self.ours[-1].group_size:
            return f"It is better than all simple ways at every group size up to {largest}.{self._close_call()}"
        name = best.name[0].upper() + best.name[1:]
        advice = f"{name} is as good or better, and is trained in seconds: use that"
        if largest:
            return f"It is better than all simple ways at up to {_per_pass(largest)}. Beyond that: {advice}."
        other = "" if self.pretrained else ", or start from a pretrained encoder (--start minilm)"
        return f"THIS MODEL IS NOT BETTER. {advice}{other}."

    def _close_call(self) -> str:
        """Says it if the smallest lead over the best rival is no more than chance gives on so few rows."""
        closest = min(self.ours, key=lambda quality: quality.score)
        lead = closest.score - self.best_rival.score
        if closest.metric == "mse" or lead >= sqrt(max(0.0, closest.score * (1 - closest.score)) / closest.rows):
            return ""
        close = f"At {_per_pass(closest.group_size)} the lead over {self.best_rival.name} is less than a standard error"
        return f" {close} on {closest.rows:,} rows."

    def _beside_plain(self) -> str:
        """Names the plain model if it is the better one where nothing is mixed."""
        if self.plain is None or self.plain.score <= self.ours[0].score:
            return ""
        return f"Where one text per pass is fast enough, the plain model answers better: {self.plain_folder}"

    def as_dict(self) -> dict[str, object]:
        plain = None if self.plain is None else asdict(self.plain)
        rivals = [asdict(rival) for rival in self.rivals]
        ours = [asdict(q) for q in self.ours]
        return {"ours": ours, "rivals": rivals, "left_out": self.left_out, "plain": plain}


def judge(model: Path, recipe: Recipe, task: Task, data_dir: str | None = None) -> Verdict:
    """Compare a trained model with simple rivals on the held-out rows, and save the verdict beside the model."""
    train, held_out, labels = task_examples(task, data_dir, recipe.run.eval_rows)
    left_out: list[str] = []
    rivals = simple_rivals(train, held_out, labels, score, encoder=_encoder(), left_out=left_out.append)
    folder = plain_model(model, recipe)
    plain = _measured(folder, task, held_out)[0] if folder else None
    started = recipe.model.start not in ("", PACKAGED_ENCODER)
    verdict = Verdict(_measured(model, task, held_out), rivals, plain, str(folder or ""), started, left_out)
    (model / FILE).write_text(json.dumps(verdict.as_dict(), indent=2))
    return verdict


def plain_model(model: Path, recipe: Recipe) -> Path | None:
    """The folder of the plain model that the run trained before the mixed one, if it did."""
    if not recipe.task.plain_steps or recipe.model.num_instances == 1:
        return None
    return model.parent.parent / "plain" / "task" / "model"


def _measured(model: Path, task: Task, held_out: Examples) -> list[Quality]:
    runtime, config, _ = load_runtime(str(model))
    rows, known = load_rows(str(model), config, task, held_out)
    return measure_quality(runtime, rows, known, group_sizes=default_sizes(runtime.num_instances))


def _encoder() -> str:
    """The pretrained encoder that is at hand: MiniLM if it is installed. Nothing is downloaded for a comparison."""
    found = find_model("minilm")
    return found if Path(found).is_dir() else ""


def _flips(quality: Quality) -> str:
    """How many answers change when only the neighbours change, where there are neighbours."""
    share = flips_of(quality)
    return "" if share is None else f", where {share:.1%} of the answers flip when only the neighbours change"


def _per_pass(group_size: int) -> str:
    return "one text per pass" if group_size == 1 else f"{group_size} texts per pass"


def _shown(value: float, metric: str) -> str:
    return f"{-value:.4g}" if metric == "mse" else f"{value:.1%}"
