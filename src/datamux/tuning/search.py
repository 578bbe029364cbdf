"""Successive halving within a time budget: all contenders briefly, then the promising ones for longer.

A contender goes on from its own model of the rung before, so no training is wasted. Every family runs the first rung,
with as many of its contenders as the time gives a fair start, and its best runs the second. Each finished
training is written to the state at once; an interrupted one continues from its last checkpoint.
"""

import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from datamux.errors import reason
from datamux.evaluate.row_scores import Metric
from datamux.inference.predictor import load
from datamux.inference.runtime import bf16_is_quick
from datamux.tasks.examples import Examples
from datamux.tasks.task import load_unlabelled
from datamux.train.recipe import Recipe
from datamux.train.stages import train
from datamux.tuning.contender import Contender, best_by, recipe_of
from datamux.tuning.data import ROWS, Data, sampled_to_teach
from datamux.tuning.measure import score_predictor
from datamux.tuning.pace import seconds_per_step
from datamux.tuning.progress import in_words, of_budget
from datamux.tuning.settings import Wish
from datamux.tuning.state import State
from datamux.tuning.subject import Subject
from datamux.tuning.teaching import ask_reference, written_to

SHARES = (0.3, 0.35, 0.35)  # of the time for contenders, per rung
ANOTHER = 0.15  # if this share of the time is left after the last rung, another one follows
MOST_ASKING = 0.3  # of the time that is left, for the reference's answers to all texts; with more texts than
LEAST_ASKED = 500  # these, they are sampled if it would take longer
LEAST_STEPS = 20  # fewer steps say nothing about a contender
FAIR_START = 100  # steps of the first rung; if there is no time for them, fewer contenders of a family take part
PATIENT = 2.0, 2.0, 1.0  # per rung: a contender that is e times as fast may still lack this many points
SLOWER = 1.3  # evaluations and the teacher's answers make a training longer than its steps


@dataclass
class Search:
    """The contenders of one run of `datamux tune`."""

    state: State
    subject: Subject
    data: Data
    stop_rows: Examples
    metric: Metric
    wish: Wish
    folder: Path
    deadline: float  # when trainings must end, in seconds of the budget
    budget: float  # with the finals, which follow
    unlabelled: str
    seed: int
    tell: Callable[[str], None]

    def run(self, contenders: Sequence[Contender]) -> None:
        entrants = list(contenders)
        self._limit_asking()
        if any(not self._done(contender, 0) for contender in entrants):
            self._ask(entrants)
        rung = 0
        while rung < len(SHARES) or self._goes_on(entrants, rung):
            entrants = self._promoted(entrants, rung)
            left = max(0.0, self.deadline - self.state.spent)
            share = SHARES[rung] / sum(SHARES[rung:]) if rung < len(SHARES) else 1.0
            self._rung(entrants, rung, left * share)
            rung += 1

    def _goes_on(self, entrants: Sequence[Contender], rung: int) -> bool:
        """Whether another rung is worth it: trainings ended for lack of time, and a larger budget was given since."""
        if any(self._done(contender, rung) or _key(contender, rung) in self._started for contender in entrants):
            return True
        cut_short = any((self._trial(contender, rung - 1) or {}).get("cut_short") for contender in entrants)
        return cut_short and self.deadline - self.state.spent > ANOTHER * self.deadline

    def _ask(self, contenders: Sequence[Contender]) -> None:
        """Every contender shares the reference's answers; one that also learns from its states asks for all of them."""
        first = max(contenders, key=lambda contender: float(contender.task.get("distill_states", 0)))
        if self.deadline > self.state.spent:
            most = in_words(self._texts / self.state.data["reference"]["rate"])
            self.tell(f"the reference's answers take up to {most}; {of_budget(self.budget, self.state.spent)}")
            ask_reference(self._recipe(first, 1), self.data, self.folder, self.tell)
            self.state.save()

    def _limit_asking(self) -> None:
        """Sample the texts if the reference's answers to all of them take too long. It is decided once."""
        taught, left = self.state.data.get("taught"), self.deadline - self.state.spent
        if taught is None:
            if left <= 0:
                return
            affordable = int(MOST_ASKING * left * self.state.data["reference"]["rate"])
            taught = min(self._texts, max(LEAST_ASKED, affordable))
            self.state.save(taught=taught)
        if taught < self._texts:
            self.state.note(
                f"the contenders learn from {taught:,} of {self._texts:,} texts, drawn at random, because the "
                "reference's answers to all of them would take too much of the budget: a larger --budget in a new "
                "folder allows more",
                self.tell,
            )
            self.data, self.unlabelled = sampled_to_teach(
                self.data, self.unlabelled, taught, self.seed, self.folder / ROWS
            )
            del self._texts

    def _recipe(self, contender: Contender, steps: int, rung: int = 0) -> Recipe:
        return recipe_of(
            contender,
            steps=steps,
            teacher=self.subject.reference,
            max_tokens=self.subject.max_tokens,
            start=self._model_of(contender, rung - 1),
            unlabelled=self.unlabelled,
            best_by=best_by(self.metric),
            seed=self.seed,
        )

    def _rung(self, entrants: Sequence[Contender], rung: int, seconds: float) -> None:
        """Train all of them for equal times; what one does not need is shared evenly by the others."""
        waiting = [contender for contender in entrants if not self._done(contender, rung)]
        if seconds <= 0:
            for contender in waiting:
                self._skip(contender, rung)
            return
        began = self.state.spent
        paces = {contender.name: self._pace(contender, rung) * SLOWER for contender in waiting}
        waiting = [contender for contender in waiting if math.isfinite(paces[contender.name])]
        seconds -= self.state.spent - began
        most = {c.name: int(max(self._most_steps(c, rung), 10 * LEAST_STEPS)) for c in waiting}
        waiting = waiting if rung else self._with_fair_start(waiting, entrants, paces, seconds)
        wanted = {c.name: most[c.name] * paces[c.name] for c in waiting}
        times = equal_shares(wanted, seconds, {} if rung else {c.name: FAIR_START * paces[c.name] for c in waiting})
        waiting.sort(key=lambda contender: times[contender.name])
        for place, contender in enumerate(waiting):
            name, planned = contender.name, sum(times[other.name] for other in waiting[place:])
            late = min(1.0, max(0.0, self.deadline - self.state.spent) / planned) if planned > 0 else 0.0
            steps = min(most[name], int(times[name] * late / paces[name]))
            if self.state.spent >= self.deadline or (rung and steps < LEAST_STEPS):
                self._skip(contender, rung)
                continue
            self._train(contender, rung, max(LEAST_STEPS, steps), most[name], paces[name])

    def _with_fair_start(
        self, contenders: list[Contender], entrants: Sequence[Contender], paces: dict[str, float], seconds: float
    ) -> list[Contender]:
        """All of them, or if the time is too short for a fair start of all, without the costliest of large families."""
        kept = list(contenders)
        finished = [contender for contender in entrants if self._done(contender, 0)]
        while late := FAIR_START * sum(paces[contender.name] for contender in kept) > seconds:
            families = Counter(contender.family for contender in (*kept, *finished))
            several = [c for c in kept if families[c.family] > 1 and _key(c, 0) not in self._started]
            if not several:
                break
            kept.remove(max(several, key=lambda contender: paces[contender.name]))
        out = [contender for contender in contenders if contender not in kept]
        for contender in out:
            self._note(contender, 0, failed="no time for a fair start", skipped=True, spared=True)
        if out:
            names = ", ".join(contender.name for contender in out)
            self.state.note(
                f"the budget gives a fair start of {FAIR_START} steps only to {len(kept)} of {len(contenders)} "
                f"contenders, so these did not take part: {names}; a larger --budget trains them too",
                self.tell,
            )
        if late:
            self.state.note(
                f"warning: the budget gives some contenders fewer than {FAIR_START} steps to begin with, which says "
                "little about them: give a larger --budget",
                self.tell,
            )
        return kept

    def _most_steps(self, contender: Contender, rung: int) -> float:
        """More would not help. The first rungs have a part of it, because others follow."""
        return contender.epochs * min(1.0, 2.0**rung / 4) * self._texts / contender.rows_per_step

    @cached_property
    def _texts(self) -> int:
        """How many texts there are to learn from: rows with labels, and texts that only the reference labels."""
        extra = load_unlabelled(self.data.task, Path(self.unlabelled)) if self.unlabelled else ()
        return len(self.data.train) + len(extra)

    def _train(self, contender: Contender, rung: int, steps: int, most: int, pace: float) -> None:
        steps = self._started.setdefault(_key(contender, rung), steps)  # an interrupted run keeps its steps
        self.state.save()
        left = max(0.0, self.deadline - self.state.spent)
        self.tell(
            f"{contender.name}, round {rung + 1}: {steps:,} steps, about {in_words(steps * pace)}; "
            f"{in_words(left)} left for training, {of_budget(self.budget, self.state.spent)}"
        )
        try:
            found = self._trained(contender, rung, steps)
        except Exception as error:  # whatever is wrong with one contender, the others go on
            self._leave_out(contender, rung, error)
            return
        self._note(contender, rung, cut_short=steps < most, **found)
        size = f" with {found['group_size']} per pass" if found["group_size"] > 1 else ""
        score, rate = found["stop_score"], found["rate"]
        self.tell(f"{contender.name}{size}: {100 * score:.1f}, about {rate:,.0f} texts per second")

    def _trained(self, contender: Contender, rung: int, steps: int) -> dict[str, Any]:
        """Train a contender, and score it on the rows that stop trainings."""
        recipe = self._recipe(contender, steps, rung)
        with written_to(self.folder / "training.log"):
            model = train(recipe, self.folder / slug(contender.name) / str(rung), task=self.data.task)
        forget_checkpoints(model.parent)
        predictor = load(model, device="cpu", bf16=bf16_is_quick()).with_settings(tells_cuts=False)
        looks = []
        for size in contender.sizes:
            found = score_predictor(predictor, self.stop_rows, self.data.labels, self.metric, size, groupings=1)
            looks.append({"group_size": size, "stop_score": found.score, "rate": found.rate})
        best = max(looks, key=lambda look: self._promise_at(look, rung + 1))
        trained = json.loads((model / "training.json").read_text())[-1]  # its seconds are those of all its sessions
        about = {name: trained[name] for name in ("steps", "seconds")}
        return {"folder": str(model), **about, **best, "looks": looks}

    def _leave_out(self, contender: Contender, rung: int, error: Exception) -> None:
        self._note(contender, rung, failed=reason(error), repeats=isinstance(error, ValueError))
        self.tell(f"{contender.name}: left out, {reason(error)}")

    @property
    def _started(self) -> dict[str, int]:
        """The steps of every training that was started."""
        started: dict[str, int] = self.state.data.setdefault("started", {})
        return started

    def _pace(self, contender: Contender, rung: int) -> float:
        """Seconds per step: from the rung before, or from a few steps that are timed now.

        The first rung of a mixed contender begins with small groups, so its steps were shorter than the next ones.
        """
        before = self._trial(contender, rung - 1)
        grew = rung == 1 and max(contender.sizes) > 1
        if before and before.get("steps") and not grew:
            return float(before["seconds"] / before["steps"] / SLOWER)
        try:
            recipe = self._recipe(contender, 1, rung)
            return seconds_per_step(recipe, self.data.train, self.data.labels, self.data.task.kind)
        except Exception as error:  # a contender that cannot be built is named, and left out
            self._leave_out(contender, rung, error)
            return math.inf

    def _promoted(self, entrants: list[Contender], rung: int) -> list[Contender]:
        """All of them at first; then the best of every family, and as many of the others as make half."""
        if rung == 0:
            return entrants
        ranked = sorted(
            (c for c in entrants if "folder" in (self._trial(c, rung - 1) or {})),
            key=lambda c: -self._promise(c, rung),
        )
        kept = [c for place, c in enumerate(ranked) if c.family not in {other.family for other in ranked[:place]}]
        kept = kept if rung == 1 else ranked[:1]
        wanted = max(len(kept), math.ceil(len(ranked) / 2))
        return kept + [c for c in ranked if c not in kept][: wanted - len(kept)]

    def _promise(self, contender: Contender, rung: int) -> float:
        """What it promises at its best group size."""
        return max(self._promise_at(look, rung) for look in looks_of(self._trial(contender, rung - 1) or {}))

    def _promise_at(self, trial: dict[str, Any], rung: int) -> float:
        """How fast it is, less what it lacks: being e times as fast makes up for a few points."""
        reference = self.state.data["reference"]
        if self.wish.min_speed is not None:
            too_slow = max(0.0, math.log(self.wish.min_speed / trial["rate"]))
            return float(100 * trial["stop_score"] - 10 * too_slow)
        floor = 100 * reference["stop_score"] - self.wish.points
        if self.wish.min_score is not None:
            floor = min(self.wish.min_score, 100 * reference["stop_score"])
        lacks: float = max(0.0, floor - 100 * trial["stop_score"])
        faster: float = trial["rate"] / reference["rate"]
        return math.log(faster) - lacks / PATIENT[min(rung, len(PATIENT) - 1)]

    # What is known of a contender

    def _trial(self, contender: Contender, rung: int) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.state.data["trials"].get(_key(contender, rung))
        return found

    def _done(self, contender: Contender, rung: int) -> bool:
        """A failure that need not repeat, such as a full disk, is tried again by the next run."""
        found = self._trial(contender, rung) or {}
        return "folder" in found or bool(found.get("repeats"))

    def _model_of(self, contender: Contender, rung: int) -> str:
        return str((self._trial(contender, rung) or {}).get("folder", ""))

    def _note(self, contender: Contender, rung: int, **found: Any) -> None:
        about = {"name": contender.name, "family": contender.family, "rung": rung, "sizes": list(contender.sizes)}
        self.state.data["trials"][_key(contender, rung)] = about | found
        self.state.save()

    def _skip(self, contender: Contender, rung: int) -> None:
        if rung == 0 and self._trial(contender, rung) is None:
            self._note(contender, rung, failed="no time was left", skipped=True)
            self.tell(f"{contender.name}: no time was left for it; give a larger --budget")


def equal_shares(wanted: Mapping[str, float], seconds: float, least: Mapping[str, float]) -> dict[str, float]:
    """How much time each of them gets: the same for all, but not more than it wants, and not less than its `least`.

    If there is not enough time for that, all lose the same part of it.
    """

    def shares_at(level: float) -> dict[str, float]:
        return {name: min(want, max(level, least.get(name, 0.0))) for name, want in wanted.items()}

    low, high = 0.0, max(0.0, seconds)
    for _ in range(50):  # by halves to the level at which the shares take all the time
        level = (low + high) / 2
        low, high = (level, high) if sum(shares_at(level).values()) <= seconds else (low, level)
    shares = shares_at(low)
    part = min(1.0, max(0.0, seconds) / sum(shares.values())) if any(shares.values()) else 1.0
    return {name: share * part for name, share in shares.items()}


def last_trials(trials: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every contender that was trained, the trial of its last rung, the most accurate first.

    If an earlier rung left a better model, which a new rate can spoil, it is that one.
    """
    last: dict[str, dict[str, Any]] = {}
    for trial in sorted(trials.values(), key=lambda trial: int(trial["rung"])):
        if "folder" not in trial:
            continue
        before = last.get(trial["name"])
        if before is None or _mean_score(trial) >= _mean_score(before):
            last[trial["name"]] = trial
    return sorted(last.values(), key=lambda trial: -float(trial["stop_score"]))


def _mean_score(trial: dict[str, Any]) -> float:
    """The mean score over the group sizes."""
    return fmean(float(look["stop_score"]) for look in looks_of(trial))


def looks_of(trial: dict[str, Any]) -> list[dict[str, Any]]:
    """The score on the rows that stop trainings, and the first look at the speed, at every group size."""
    looks: list[dict[str, Any]] = trial["looks"]
    return looks


def forget_checkpoints(folder: Path) -> None:
    """Checkpoints are for continuing a training; when it is finished, they only take room."""
    for checkpoint in folder.glob("checkpoint-*"):
        shutil.rmtree(checkpoint, ignore_errors=True)


def _key(contender: Contender, rung: int) -> str:
    return f"{contender.name} #{rung}"


def slug(name: str) -> str:
    return "-".join("".join(letter if letter.isalnum() else " " for letter in name).split())
