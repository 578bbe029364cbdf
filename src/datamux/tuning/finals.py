"""The finals: the trained models on every engine, scored on the rows that choose, then timed in one interleaved run."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from datamux.errors import reason
from datamux.evaluate.frontier import Point, mark_best
from datamux.evaluate.row_scores import Metric, Numbers, score_of
from datamux.evaluate.timing import Contender as Timed
from datamux.evaluate.workloads import inputs_of
from datamux.inference.predictor import Predictor
from datamux.tasks.examples import Examples
from datamux.train.simple_rivals import FittedRival
from datamux.tuning.data import Data
from datamux.tuning.engines import NEEDS, on_engine
from datamux.tuning.keep import source_name
from datamux.tuning.measure import (
    RIVAL,
    point_of,
    quick_rate,
    rival_answers,
    score_predictor,
    time_all,
    timed_predictor,
    timed_rival,
)
from datamux.tuning.progress import in_words, of_budget
from datamux.tuning.search import last_trials, looks_of, slug
from datamux.tuning.settings import Wish
from datamux.tuning.state import State
from datamux.tuning.subject import Subject

NEARLY = 1.0  # points, and
NEARLY_AS_FAST = 1.25  # times the speed: what is this close to the frontier stays in
EXPORTING = 15.0  # seconds, about, to export a model
MOST_TIMING = 0.15  # of the budget is kept for the timing, even if it takes longer
BEYOND = 2.0  # with little time, a model that is this many points beyond the wish is measured on one engine only
NO_TIME = "no time was left to measure"  # how a note begins that names what is missing
Measured = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How much is measured: models on every engine, models and engines in the timing, its rounds, seconds of a turn."""

    models: int
    timed: int
    rounds: int
    seconds: float

    @property
    def timing(self) -> float:
        """About how long the timing takes, with the search for the best batch sizes."""
        return 3 * self.timed * self.rounds * self.seconds


@dataclass
class Finals:
    """Everything that is measured of trained models and rivals; what was measured before an interruption stays."""

    state: State
    subject: Subject
    data: Data
    metric: Metric
    wish: Wish
    engines: Sequence[str]
    rivals: Callable[[], Sequence[FittedRival]]  # they are fitted when they are needed
    folder: Path
    budget: float
    effort: Effort
    tell: Callable[[str], None]

    def run(self) -> tuple[list[Point], dict[str, Numbers]]:
        """The points of the frontier plot, the reference first; and the numbers of every row, by the point's name.

        There are also the numbers of every mixed model that answers one text at a time, by the name of that point.
        """
        self._score_models()
        self._score_rivals()
        chosen = self._for_timing()
        speeds = self._speeds(chosen)
        chosen = [one for one in chosen if one["name"] in speeds]
        reference = chosen[0]
        points = [point_of(one, speeds[one["name"]], reference["score"]) for one in chosen]
        ours = iter(mark_best([point for point in points if point.engine != RIVAL]))
        points = [point if point.engine == RIVAL else next(ours) for point in points]
        names = {name for point in points for name in (point.name, replace(point, group_size=1).name)}
        return points, {name: self._rows(name) for name in names if name in self.state.data["measured"]}

    def _score_models(self) -> None:
        """Engine by engine, so that if time runs out, the fast models have not lost all of theirs."""
        reference = {"name": "reference", "folder": self.subject.reference, "sizes": [1]}
        trials = last_trials(self.state.data["trials"])
        self._forget_old({trial["name"]: trial["folder"] for trial in trials})
        finalists = [_with_single_texts(trial) for trial in _finalists(trials, self.effort.models)]
        self._score(reference, "torch")  # all are compared with it
        first, *others = self.engines
        for model in (reference, *finalists):
            self._score(model, first)
        kept = self._worth_their_time(finalists)
        for engine in others:
            late = []
            for model in (reference, *kept):
                if self.state.spent < self._until or model is reference:
                    self._score(model, engine)
                elif self._unmeasured(model, engine):
                    late.append(model["name"])
            if late:
                self.state.note(f"{NO_TIME} on {engine}: {', '.join(late)}; give a larger --budget", self.tell)

    def _worth_their_time(self, finalists: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The models to measure on the other engines: with little time, only those that may still be chosen."""
        others = self.engines[1:]
        needed = sum(
            EXPORTING + self._seconds(model)
            for engine in others
            for model in finalists
            if self._unmeasured(model, engine)
        )
        if not needed or self.wish.min_speed is not None or self.state.spent + needed <= self._until:
            return finalists
        reference = self._best_score({"name": "reference", "sizes": [1]}, "torch") or 0.0
        floor = 100 * reference - self.wish.points
        floor = (floor if self.wish.min_score is None else self.wish.min_score) - BEYOND
        scores = {model["name"]: self._best_score(model, self.engines[0]) for model in finalists}
        known = sorted((score for score in scores.values() if score is not None), reverse=True)
        floor = min([floor, *(100 * score for score in known[:2])])
        kept = [m for m in finalists if (score := scores[m["name"]]) is None or 100 * score >= floor]
        out = ", ".join(model["name"] for model in finalists if model not in kept)
        if out:
            self.state.note(
                f"there was little time for measuring, so what is far from the wish was measured only on "
                f"{self.engines[0]}: {out}; give a larger --budget",
                self.tell,
            )
        return kept

    def _say(self, text: str) -> None:
        """A line of progress, with the time that is left."""
        self.tell(f"{text}; {of_budget(self.budget, self.state.spent)}")

    @property
    def _until(self) -> float:
        """When scoring must end, so that the timing ends within the budget."""
        return self.budget - min(self.effort.timing, MOST_TIMING * self.budget)

    def _on(self, model: dict[str, Any], engine: str) -> list[Measured]:
        """What was measured of a model on an engine."""
        known = self.state.data["measured"]
        names = (_name(model["name"], engine, size) for size in model["sizes"])
        return [known[name] for name in names if name in known]

    def _best_score(self, model: dict[str, Any], engine: str) -> float | None:
        return max((float(one["score"]) for one in self._on(model, engine)), default=None)

    def _seconds(self, model: dict[str, Any]) -> float:
        """How long a model took on the first engine."""
        return sum(float(one.get("seconds", 0.0)) for one in self._on(model, self.engines[0]))

    def scores_of(self, point: Point) -> dict[str, float]:
        """The scores of a model on its engine, by the group size."""
        measured = self.state.data["measured"].values()
        same = [one for one in measured if (one["model"], one["engine"]) == (point.model, point.engine)]
        return {str(one["group_size"]): one["score"] for one in sorted(same, key=lambda one: int(one["group_size"]))}

    def engines_of_contenders(self) -> list[str]:
        """The engines on which a trained model, and not just the reference, was measured."""
        measured = self.state.data["measured"].values()
        found = {one["engine"] for one in measured if one["model"] != "reference" and one["engine"] != RIVAL}
        return [engine for engine in NEEDS if engine in found]

    def _forget_old(self, folders: dict[str, str]) -> None:
        """Drop what was measured of models that were trained further since; all finalists are then timed again."""
        measured = self.state.data["measured"]
        old = [name for name, one in measured.items() if one["folder"] != folders.get(one["model"], one["folder"])]
        for name in old:
            del measured[name]
        if old:
            self.state.save(speeds={})

    def _unmeasured(self, model: dict[str, Any], engine: str) -> list[int]:
        """The group sizes at which a model was not measured on an engine."""
        known = self.state.data["measured"]
        return [size for size in model["sizes"] if _name(model["name"], engine, size) not in known]

    def _score(self, model: dict[str, Any], engine: str) -> None:
        sizes = self._unmeasured(model, engine)
        if not sizes:
            return
        first = self._seconds(model)  # on the first engine, or 0 before that
        self._say(
            f"measuring {model['name']} on {engine}" + (f", about {in_words(EXPORTING + first)}" if first else "")
        )
        try:
            predictor = self._predictor({"folder": model["folder"], "engine": engine})
        except Exception as error:  # an exporter fails in its own ways; the other engines still run
            self.state.note(f"{model['name']} cannot run on {engine}: {reason(error)}", self.tell)
            return
        texts = inputs_of(self.data.choice)
        for size in sizes:
            before = time.perf_counter()
            found = score_predictor(predictor, self.data.choice, self.data.labels, self.metric, size)
            about = {"model": model["name"], "engine": engine, "group_size": size, "folder": model["folder"]}
            rate = quick_rate(predictor, texts, size)
            seconds = time.perf_counter() - before
            self._keep(about | {"score": found.score, "rate": rate, "seconds": seconds}, found.rows)

    def _score_rivals(self) -> None:
        if self.state.data.get("rivals_scored"):
            return
        rivals = self.rivals()
        for rival in rivals:
            if _name(rival.name, RIVAL, 1) in self.state.data["measured"]:
                continue
            before = time.perf_counter()
            answers = rival_answers(rival, self.data.choice, self.data.labels)
            rate = len(answers) / (time.perf_counter() - before)
            rows = self.metric.of_rows(answers, self.data.choice, self.data.labels)
            about = {"model": rival.name, "engine": RIVAL, "group_size": 1, "folder": ""}
            self._keep(about | {"score": score_of(self.metric, rows), "rate": rate}, rows)
        self.state.save(rivals_scored=bool(rivals))  # if fitting failed, the next run tries again

    def _keep(self, about: Measured, rows: Numbers) -> None:
        name = _name(about["model"], about["engine"], about["group_size"])
        file = self.folder / "rows" / f"{slug(name)}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, rows)
        self.state.data["measured"][name] = about | {"name": name, "rows": file.name}
        self.state.save()
        self.tell(f"{name}: {100 * about['score']:.1f}, about {about['rate']:,.0f} texts per second")

    def _rows(self, name: str) -> Numbers:
        found: Numbers = np.load(self.folder / "rows" / self.state.data["measured"][name]["rows"])
        return found

    def test_rows_of(self, name: str, test: Examples) -> Numbers:
        """The numbers of the test rows, answered by a model that was measured; only once."""
        one = self.state.data["measured"][name]
        file = self.folder / "rows" / f"test-{one['rows']}"
        if not one.get("tested"):
            self._say(f"answering {len(test):,} test rows with {name}")
            if one["engine"] == RIVAL:
                rival = next(rival for rival in self.rivals() if rival.name == one["model"])
                rows = self.metric.of_rows(rival_answers(rival, test, self.data.labels), test, self.data.labels)
            else:
                predictor = self._predictor(one)
                rows = score_predictor(predictor, test, self.data.labels, self.metric, one["group_size"]).rows
            np.save(file, rows)
            one["tested"] = True
            self.state.save()
        found: Numbers = np.load(file)
        return found

    def can_be_tested(self, point: Point) -> bool:
        """Whether test rows can be answered: a rival may not have been fitted again after an interruption."""
        known = point.engine != RIVAL or self.state.data["measured"][point.name].get("tested")
        return bool(known or any(rival.name == point.model for rival in self.rivals()))

    def _predictor(self, one: Measured) -> Predictor:
        folder = Path(one["folder"])
        return on_engine(folder, one["engine"], self._exported / source_name(folder))

    def _for_timing(self) -> list[Measured]:
        """The reference, the rivals, what is close to the frontier, and the best multiplexed one in any case."""
        measured = list(self.state.data["measured"].values())
        first = next(one for one in measured if (one["model"], one["engine"]) == ("reference", "torch"))
        rivals = [one for one in measured if one["engine"] == RIVAL]
        others = [one for one in measured if one is not first and one not in rivals]
        near = _near_frontier(others, "score")[: max(2, self.effort.timed - len(rivals))]
        near = [one for one in others if one in near]
        mixed = [one for one in others if one["group_size"] > 1 and one not in near]
        near += [max(mixed, key=lambda one: (one["score"], one["rate"]))] if mixed else []
        return [first, *near, *rivals]

    def _speeds(self, chosen: Sequence[Measured]) -> dict[str, dict[str, Any]]:
        names = [one["name"] for one in chosen]
        known: dict[str, dict[str, Any]] = self.state.data.get("speeds", {})
        if set(names) <= set(known):
            return known
        seconds = replace(self.effort, timed=len(chosen)).timing
        self._say(f"timing {len(chosen)} finalists side by side, about {in_words(seconds)}")
        rivals = {rival.name: rival for rival in self.rivals()}
        timed: list[Timed] = []
        for one in chosen:
            if one["engine"] == RIVAL:
                if one["model"] in rivals:  # it may not have been fitted again after an interruption
                    timed.append(timed_rival(rivals[one["model"]], self.data.choice))
                    timed[-1].name = one["name"]
                continue
            timed.append(timed_predictor(one["name"], self._predictor(one), self.data.choice, one["group_size"]))
        speeds = dict(time_all(timed, rounds=self.effort.rounds, seconds=self.effort.seconds, tell=self._say))
        self.state.save(speeds=speeds)
        return speeds

    @property
    def _exported(self) -> Path:
        return self.folder / "exported"


def _finalists(trials: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """The models near the frontier at any of their group sizes, and the best multiplexed one in any case."""
    looks = [look | {"trial": trial} for trial in trials for look in looks_of(trial)]
    near = [look["trial"] for look in _near_frontier(looks, "stop_score")]
    found = [trial for place, trial in enumerate(near) if trial not in near[:place]][:most]
    mixed = [look for look in looks if look["group_size"] > 1]
    if mixed and not any(max(trial["sizes"]) > 1 for trial in found):
        found.append(min(mixed, key=_margin_among(looks, "stop_score"))["trial"])
    return found


def _with_single_texts(trial: dict[str, Any]) -> dict[str, Any]:
    """A mixed model is also scored at one text per pass: so a server answers a text that comes alone."""
    return trial | {"sizes": sorted({1, *trial["sizes"]})}


def _near_frontier(found: Sequence[Measured], score: str) -> list[Measured]:
    """What nothing else beats by more than a little. Those that are ahead of the others by most come first."""
    margin = _margin_among(found, score)
    return sorted((one for one in found if margin(one) < NEARLY), key=margin)


def _margin_among(found: Sequence[Measured], score: str) -> Callable[[Measured], float]:
    """By how many points the best one that is clearly faster is ahead of it; negative if it is behind."""

    def margin(one: Measured) -> float:
        faster = [other[score] for other in found if other["rate"] > NEARLY_AS_FAST * one["rate"]]
        return float(100 * (max(faster) - one[score])) if faster else -100.0

    return margin


def _name(model: str, engine: str, group_size: int) -> str:
    return Point(model, engine, group_size, 0, 0, 0, 0, 0, 0).name
