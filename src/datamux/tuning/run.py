"""`datamux.tune`: from the user's rows to the folder of the best model. Each step is noted, so that a run can go on."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from datamux.errors import check_choice
from datamux.evaluate.records import provenance
from datamux.evaluate.row_scores import Metric, find_metric
from datamux.hub.loading import load_config
from datamux.tasks.task import load_split
from datamux.train.build import is_ours
from datamux.train.simple_rivals import FittedRival, fit_rivals
from datamux.tuning.choice import (
    TENFOLD,
    Choice,
    Judged,
    better_rival,
    choose,
    judge,
    recommendation,
    smallest_loss,
    tenfold_sentence,
)
from datamux.tuning.contender import Contender, LeftOut
from datamux.tuning.data import ROWS, Data, prepare
from datamux.tuning.engines import find_engines
from datamux.tuning.families import FAMILIES
from datamux.tuning.finals import Effort, Finals
from datamux.tuning.keep import left_out_alone, write_best
from datamux.tuning.measure import RIVAL
from datamux.tuning.progress import of_budget
from datamux.tuning.reference import find_reference, in_order_of, is_the_reference
from datamux.tuning.report import write_report
from datamux.tuning.result import Result
from datamux.tuning.search import Search
from datamux.tuning.settings import BUDGET, Settings, Wish, parse_budget
from datamux.tuning.state import FILE, State
from datamux.tuning.subject import Encoder, Subject, find_encoder
from datamux.tuning.tested import test_results, tested_sentence

CONSTANT = ("the most frequent label", "the mean")  # the same answer for every text: no rival
OWN_CLASSIFIER = (
    "warning: the reference was trained before this search; if it has seen some of the rows that choose, its score on "
    "them flatters it, and the losses of the others look larger than they are"
)
SEARCH = "search"  # the folder below that of the best model
MEASURING = 0.2  # of the budget, kept for engines and timing; but at least
LEAST_MEASURING = 600.0  # seconds, which six models of a usual encoder take on five engines,
MOST_MEASURING = 0.35  # or this part of a short budget
EFFORTS = {  # from this budget on
    2700: Effort(models=9, timed=16, rounds=5, seconds=0.7),
    600: Effort(models=6, timed=12, rounds=3, seconds=0.7),
    60: Effort(models=6, timed=12, rounds=3, seconds=0.2),
    0: Effort(models=6, timed=12, rounds=2, seconds=0.05),
}
LEAST_RIVAL_ROWS, MOST_RIVAL_WORK = 10_000, 2_000_000  # rows, and rows times labels, that scikit-learn learns from
Tell = Callable[[str], None]
logger = logging.getLogger(__name__)


def tune(
    train: str | Path | None = None,
    *,
    task: str | None = None,
    text: str | Sequence[str] = "text",
    label: str = "label",
    validation: str | Path | None = None,
    test: str | Path | None = None,
    unlabelled: str | Path | None = None,
    encoder: str | None = None,
    out: str | Path = "best",
    budget: str = BUDGET,
    max_drop: float | None = None,
    min_score: float | None = None,
    min_speed: float | None = None,
    sure: float = 0.5,
    metric: str = "auto",
    token_level: bool = False,
    families: str | Sequence[str] = (),
    engines: str | Sequence[str] = (),
    max_rows: int = 100_000,
    seed: int = 0,
    data_dir: str | None = None,
    tell: Tell = logger.info,
) -> Result:
    """The fastest model that is good enough for your rows, on this machine. `out` becomes its folder.

    Within the `budget` ("45m"), the `encoder` is fine-tuned, and contenders of every family learn from it. The chosen
    one loses at most `max_drop` points (default 1), scores at least `min_score` percent, or answers at least
    `min_speed` texts per second. An interrupted search goes on where it stopped.
    """
    return run_tune(
        Settings(
            out=Path(out),
            train=_path(train),
            task=task,
            text=(text,) if isinstance(text, str) else tuple(text),
            label=label,
            validation=_path(validation),
            test=_path(test),
            unlabelled=_path(unlabelled),
            encoder=encoder,
            budget=parse_budget(budget),
            wish=Wish(max_drop, min_score, min_speed, sure),
            metric=metric,
            token_level=token_level,
            families=(families,) if isinstance(families, str) else families,
            engines=(engines,) if isinstance(engines, str) else engines,
            max_rows=max_rows,
            seed=seed,
            data_dir=data_dir,
        ),
        tell,
    )


def run_tune(settings: Settings, tell: Tell) -> Result:
    """Run all steps, or those that an interrupted run has not done yet."""
    for family in settings.families:
        check_choice("family", family, FAMILIES)
    out = settings.out.resolve()
    folder = out / SEARCH
    if not (out / FILE).exists() and any(
        file.is_file() and folder / ROWS not in file.parents for file in out.rglob("*")
    ):
        raise ValueError(f"{out} is not empty and holds no search; choose another folder")
    notes: list[str] = []
    engines = find_engines(settings.engines, notes)
    encoder = find_encoder(settings.encoder)
    state = State(out, settings.identity() | {"encoder": encoder.called})
    data = prepare(settings, folder / ROWS)  # nothing is noted before the rows were read without a mistake
    metric = find_metric(data.labels, tags=data.tags, asked=settings.metric)
    if is_the_reference(encoder, data):
        data = in_order_of(encoder, data)
        notes.append(OWN_CLASSIFIER)
    if state.resumed:
        tell(f"continuing the search in {out}, after {state.spent / 60:.0f} minutes")
    state.begin_notes()
    if settings.encoder is None:
        notes.append(f"the encoder is {encoder.called}, because --encoder names no other")
    for note in (*data.notes, *notes):
        state.note(note, tell)
    with state.ticking():
        return _run(replace(settings, out=out), state, data, metric, encoder, engines, tell)


def _run(
    settings: Settings,
    state: State,
    data: Data,
    metric: Metric,
    encoder: Encoder,
    engines: Sequence[str],
    tell: Tell,
) -> Result:
    """From the rows to the folder of the best model."""
    out, folder = settings.out, settings.out / SEARCH
    stop_rows = load_split(data.task, "validation")
    subject = find_reference(encoder, data, stop_rows, metric, folder, state, settings.budget, settings.seed, tell)
    contenders = _contenders(subject, settings, state, tell)
    Search(
        state,
        subject,
        data,
        stop_rows,
        metric,
        settings.wish,
        folder,
        settings.budget - time_to_measure(settings.budget),
        settings.budget,
        str(settings.unlabelled.resolve()) if settings.unlabelled else "",
        settings.seed,
        tell,
    ).run(contenders)
    rivals = cache(partial(_rivals, data, encoder, state, settings.budget, tell))
    effort = next(effort for least, effort in EFFORTS.items() if settings.budget >= least)
    finals = Finals(state, subject, data, metric, settings.wish, engines, rivals, folder, settings.budget, effort, tell)
    points, rows = finals.run()
    judged = judge(points, rows, metric, settings.wish)
    ours = [one for one in judged if one.point.engine != RIVAL]
    choice = choose(ours, settings.wish)
    tenfold = smallest_loss(ours, TENFOLD)
    measured_on = finals.engines_of_contenders()
    record = _record(settings, state, subject, data, metric, measured_on, judged, choice, tenfold)
    scores = finals.scores_of(choice.best.point)
    _warn_of_single_texts(choice, judged, settings.wish, state, tell)
    record["notes"] = state.data["notes"]
    card = _card(record, data) | {"scores": scores}
    write_best(out, choice, judged, folder / "exported", card, settings.wish, _columns(settings))
    test = data.test
    if test is not None:
        wanted = [judged[0], choice.best, tenfold, *(one for one in judged if one.point.engine == RIVAL)]
        names = [one.point.name for one in wanted if one is not None and finals.can_be_tested(one.point)]
        record["test_results"] = test_results(names, lambda name: finals.test_rows_of(name, test), metric)
        record["tested"] = tested_sentence(record["test_results"], choice.best.point.name, test)
    record["spent"] = state.spent
    state.save(**record)
    write_report(record, out)
    (out / "README.md").write_text(_readme(record), encoding="utf-8")
    return Result(out, record)


def time_to_measure(budget: float) -> float:
    """How many seconds of the budget are kept for the finals."""
    return max(MEASURING * budget, min(LEAST_MEASURING, MOST_MEASURING * budget))


def _contenders(subject: Subject, settings: Settings, state: State, tell: Tell) -> list[Contender]:
    found: list[Contender] = []
    for name, family in FAMILIES.items():
        if settings.families and name not in settings.families:
            continue
        try:
            found += family(subject)
        except LeftOut as why:
            state.note(f"the family {name!r} was left out: {why}", tell)
    return found


def _rivals(data: Data, encoder: Encoder, state: State, budget: float, tell: Tell) -> list[FittedRival]:
    """Simple ways to answer, which a user would try. They need scikit-learn."""
    tell(f"fitting what you could have tried with scikit-learn; {of_budget(budget, state.spent)}")
    pretrained = encoder.name if encoder.name and not is_ours(load_config(encoder.name)) else ""
    most = max(LEAST_RIVAL_ROWS, MOST_RIVAL_WORK // max(1, len(data.labels.names)))
    notes: list[str] = []
    rows = min(most, len(data.train))
    found = fit_rivals(data.train, data.labels, encoder=pretrained, most_rows=rows, left_out=notes.append)
    rivals = [rival for rival in found if rival.name not in CONSTANT]
    if rivals and len(data.train) > most:
        notes.append(f"the rivals from scikit-learn learned from {most:,} of the rows, because more take too long")
    for note in notes:
        if note not in state.data["notes"]:
            state.note(note, tell, lasts=bool(rivals))  # without any, the next run tries again
    return rivals


def _record(
    settings: Settings,
    state: State,
    subject: Subject,
    data: Data,
    metric: Metric,
    engines: Sequence[str],
    judged: Sequence[Judged],
    choice: Choice,
    tenfold: Judged | None,
) -> dict[str, Any]:
    """What `tune.json` says at the end."""
    ours = [one for one in judged if one.point.engine != RIVAL]
    rivals = [one for one in judged if one.point.engine == RIVAL]
    sentences = recommendation(choice, ours, metric, len(data.choice), settings.wish, rivals)
    better = better_rival(rivals, choice, settings.wish)
    return {
        **provenance(),
        "kind": "tune",
        "task": data.task.name,
        "metric": metric.name,
        "encoder": subject.encoder.called,
        "wish": str(settings.wish),
        "budget": settings.budget,
        "spent": state.spent,
        "seed": settings.seed,
        "engines": list(engines),
        "met": choice.met,
        "chosen": choice.best.point.name,
        "choice_rows": len(data.choice),
        "train_rows": len(data.train),
        "tenfold": tenfold_sentence(tenfold),
        "recommendation": [*sentences, *([better] if better else [])],
        "table": _table(state, judged, choice),
        "notes": state.data["notes"],
    }


def _table(state: State, judged: Sequence[Judged], choice: Choice) -> list[dict[str, Any]]:
    """The timed ones from the slowest to the fastest, then what was only scored, then what failed."""
    families = {trial["name"]: trial["family"] for trial in state.data["trials"].values()} | {"reference": "reference"}
    rows = []
    for one in sorted(judged, key=lambda one: one.point.ratio):
        point = one.point
        rows.append(
            {
                "name": point.name,
                "family": families.get(point.model, "rival"),
                "model": point.model,
                "engine": point.engine,
                "group_size": point.group_size,
                "score": 100 * point.score,
                "drop": point.drop,
                "drop_low": one.drop_low,
                "drop_high": one.drop_high,
                "rate": point.rate,
                "ratio": point.ratio,
                "lowest": point.lowest,
                "highest": point.highest,
                "chance": one.chance,
                "positions": point.positions,
                "on_frontier": point.best,
                "chosen": point.name == choice.best.point.name,
                "timed": True,
            }
        )
    shown = {row["name"] for row in rows}
    first = judged[0].point.score
    plain = {"on_frontier": False, "chosen": False, "timed": False}
    for one in state.data["measured"].values():
        if one["name"] not in shown:
            family = families.get(one["model"], "rival")
            scores = {"score": 100 * one["score"], "drop": 100 * (first - one["score"]), "rate": one["rate"]}
            rows.append({"name": one["name"], "family": family, **scores, **plain})
    measured = {one["model"] for one in state.data["measured"].values()}
    stop = state.data["reference"]["stop_score"]
    for trial in state.data["trials"].values():
        if trial["name"] in measured:
            continue
        about = {"name": f"{trial['name']}, round {trial['rung'] + 1}", "family": trial["family"], **plain}
        if "failed" in trial:
            skipped = trial.get("skipped", False) and not trial.get("spared", False)
            rows.append(about | {"failed": trial["failed"], "skipped": skipped})
        else:
            score = trial["stop_score"]
            rows.append(
                about | {"stop_rows": True, "score": 100 * score, "drop": 100 * (stop - score), "rate": trial["rate"]}
            )
    return rows


def _card(record: dict[str, Any], data: Data) -> dict[str, Any]:
    names = ", ".join(data.labels.names[:10]) + (", ..." if len(data.labels.names) > 10 else "")
    return {
        "what": f"{record['chosen']}, chosen by datamux tune for {record['task']} ({names})",
        "task": record["task"],
        "metric": record["metric"],
        "rows": record["choice_rows"],
    }


def _warn_of_single_texts(choice: Choice, judged: Sequence[Judged], wish: Wish, state: State, tell: Tell) -> None:
    """Say which models are good enough among others, but not for a text that comes alone."""
    best = choice.best
    if best.alone is not None and not best.meets_alone and wish.min_speed is None:
        state.note(
            f"warning: the chosen model scores {100 * best.alone:.1f} on texts that it answers one at a time, as a "
            "server does when a text comes alone: that does not meet what you asked for",
            tell,
        )
    for one in left_out_alone(choice, judged, wish):
        scores = "was not measured" if one.alone is None else f"scores {100 * one.alone:.1f}"
        state.note(
            f"{one.point.name} is no gear of a server, because it {scores} on texts that it answers one at a time, "
            "which does not meet what you asked for",
            tell,
        )


def _columns(settings: Settings) -> tuple[str, ...]:
    """The columns with the texts of the user's file, so that `datamux predict` need not be told again."""
    return tuple(settings.text) if settings.train is not None else ()


def _readme(record: dict[str, Any]) -> str:
    """The model card."""
    recommended = " ".join(record["recommendation"])
    return f"""# {record["task"]}

Chosen by `datamux tune` on {record["date"]}, on {record["hardware"]["cpu"]}. {recommended}

{record.get("tested", "")}

```python
import datamux

predictor = datamux.load("this folder")
predictor(["a text", "another text"])
```

`report.html` has the frontier and everything that was tried; `datamux serve` uses the models in `gears/` under load.
"""


def _path(file: str | Path | None) -> Path | None:
    return None if file is None else Path(file)
