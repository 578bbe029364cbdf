"""Which models reach the finals, on which engines if time runs out, and what is said of rows and of tests."""

import json
import logging
import re
from argparse import Namespace

import numpy as np
import pytest

from datamux.evaluate.frontier import Point
from datamux.evaluate.plots import even_rates
from datamux.evaluate.row_scores import find_metric
from datamux.tasks.examples import Examples
from datamux.tasks.labels import find_labels
from datamux.train import trainer
from datamux.tuning import finals as finals_module
from datamux.tuning import measure, reference, tested
from datamux.tuning.choice import judge
from datamux.tuning.finals import Effort, Finals, _finalists, _name
from datamux.tuning.measure import GROUPINGS, RIVAL, score_predictor
from datamux.tuning.plot import frontier_svg
from datamux.tuning.progress import of_budget
from datamux.tuning.report import cells, time_spent
from datamux.tuning.run import EFFORTS, time_to_measure
from datamux.tuning.search import Search
from datamux.tuning.settings import Wish
from datamux.tuning.subject import Encoder
from datamux.tuning.teaching import written_to

METRIC = find_metric(find_labels(["a", "b"]), tags=False)


def trial(name, *looks, rung=0):
    """`looks` are (group size, score in percent, rate)."""
    looks = [{"group_size": size, "stop_score": score / 100, "rate": rate} for size, score, rate in looks]
    sizes = [look["group_size"] for look in looks]
    return {"name": name, "rung": rung, "folder": f"models/{name}", "sizes": sizes, "looks": looks} | looks[-1]


def names(trials):
    return [one["name"] for one in trials]


def test_a_mixed_model_that_is_good_at_a_small_size_reaches_the_finals():
    whole, cut = trial("4 layers", (1, 90, 100)), trial("1 layer", (1, 80, 400))
    mixed = trial("mixed", (2, 89, 180), (5, 70, 350), (10, 50, 600))
    assert names(_finalists([whole, cut, mixed], 9)) == ["mixed", "1 layer", "4 layers"]
    slow = trial("slow", (1, 85, 90))
    assert "slow" not in names(_finalists([whole, cut, mixed, slow], 9))


def test_one_mixed_model_is_always_measured_to_the_end():
    plain = [trial("4 layers", (1, 90, 100)), trial("1 layer", (1, 88, 900))]
    bad = trial("mixed after 2", (2, 80, 150), (10, 50, 600)), trial("mixed after 1", (2, 70, 150), (10, 40, 600))
    assert names(_finalists([*plain, *bad], 9)) == ["1 layer", "4 layers", "mixed after 2"]


def test_a_contender_is_promoted_for_its_best_size():
    state = Namespace(data={"reference": {"stop_score": 0.9, "rate": 100.0}, "trials": {}})
    state.data["trials"] = {
        "mixed #0": trial("mixed", (2, 90, 190), (10, 50, 600)),
        "cut #0": trial("cut", (1, 90, 150)),
    }
    search = Search(**dict.fromkeys(Search.__dataclass_fields__) | {"state": state, "wish": Wish()})
    mixed, cut = (search._promise(Namespace(name=name), 1) for name in ("mixed", "cut"))
    assert mixed == pytest.approx(np.log(1.9))
    assert mixed > cut


class _State:
    def __init__(self, spent):
        self.spent, self.data, self.notes = spent, {"trials": {}, "measured": {}}, []

    def note(self, text, tell):
        self.notes.append(text)


@pytest.mark.parametrize(("spent", "late"), [(50.0, False), (150.0, True)])
def test_out_of_time_every_model_still_has_the_first_engine(monkeypatch, spent, late):
    state, scored = _State(spent), []
    state.data["trials"] = {"fast": trial("fast", (1, 90, 900)), "slow": trial("slow", (1, 80, 50))}
    monkeypatch.setattr(Finals, "_score", lambda self, model, engine: scored.append((model["name"], engine)))
    given = {"state": state, "budget": 100.0, "engines": ["torch", "int8"], "subject": Namespace(reference="models/r")}
    given |= {"wish": Wish(), "effort": Effort(9, 16, 1, 0.0)}
    Finals(**dict.fromkeys(Finals.__dataclass_fields__) | given)._score_models()
    assert {("reference", "torch"), ("reference", "int8"), ("fast", "torch")} <= set(scored)
    assert (("fast", "int8") in scored) is not late
    assert state.notes == ["no time was left to measure on int8: fast; give a larger --budget"] * late


@pytest.mark.parametrize(
    ("wish", "budget", "exported"),
    [
        (Wish(), 1000.0, ["good", "near", "bad"]),
        (Wish(), 120.0, ["good", "near"]),
        (Wish(max_drop=0.1), 120.0, ["good", "near"]),
        (Wish(max_drop=20), 120.0, ["good", "near", "bad"]),
        (Wish(min_score=79), 120.0, ["good", "near", "bad"]),
        (Wish(min_score=89), 120.0, ["good", "near"]),
        (Wish(min_speed=100), 120.0, ["good", "near", "bad"]),
    ],
)
def test_with_little_time_only_what_may_be_chosen_is_exported(monkeypatch, wish, budget, exported):
    """The reference is always measured, and never fewer than two models."""
    state, scored = _State(50.0), []
    rates = {"good": (90, 100), "near": (87.5, 300), "bad": (80, 900)}
    state.data["trials"] = {name: trial(name, (1, score, rate)) for name, (score, rate) in rates.items()}
    scores = {"reference": 0.9, "good": 0.9, "near": 0.875, "bad": 0.8}

    def score(self, model, engine):
        scored.append((model["name"], engine))
        about = {"model": model["name"], "engine": engine, "score": scores[model["name"]], "seconds": 10.0}
        state.data["measured"][f"{model['name']}, {engine}"] = about | {"folder": "", "group_size": 1}

    monkeypatch.setattr(Finals, "_score", score)
    monkeypatch.setattr(Finals, "_forget_old", lambda self, folders: None)
    given = {"state": state, "budget": budget, "engines": ["torch", "int8"], "subject": Namespace(reference="models/r")}
    given |= {"wish": wish, "effort": Effort(9, 16, 1, 0.0)}
    finals = Finals(**dict.fromkeys(Finals.__dataclass_fields__) | given)
    finals._score_models()
    assert {name for name, engine in scored if engine == "int8"} == {"reference", *exported}
    assert {name for name, engine in scored if engine == "torch"} == scores.keys()
    assert len(state.notes) == (len(exported) < 3)
    assert finals.engines_of_contenders() == ["torch", "int8"]
    state.spent, notes = 500.0, list(state.notes)
    Finals(**dict.fromkeys(Finals.__dataclass_fields__) | given | {"engines": ["torch"]})._score_models()
    assert state.notes == notes, "with one engine there is nothing to leave out"
    state.data["measured"] = {name: one for name, one in state.data["measured"].items() if "reference" in name}
    assert finals.engines_of_contenders() == [], "the reference alone is no contender"


def test_the_timing_has_its_part_of_the_budget(monkeypatch):
    """Scoring on engines ends before it; and a short budget times fewer models in fewer rounds."""
    state, scored = _State(87.0), []
    state.data["trials"] = {"fast": trial("fast", (1, 90, 900))}
    monkeypatch.setattr(Finals, "_score", lambda self, model, engine: scored.append((model["name"], engine)))
    given = {"state": state, "budget": 100.0, "engines": ["torch", "int8"], "subject": Namespace(reference="models/r")}
    given |= {"wish": Wish(), "effort": Effort(models=9, timed=8, rounds=2, seconds=0.3)}
    Finals(**dict.fromkeys(Finals.__dataclass_fields__) | given)._score_models()
    assert ("fast", "int8") not in scored, "14.4 seconds are kept for the timing"
    short, usual = EFFORTS[600], EFFORTS[2700]
    assert short.models < usual.models
    assert short.rounds < usual.rounds
    assert short.timing < 0.35 * 600


def test_time_is_kept_for_the_finals():
    assert time_to_measure(7200) == 1440
    assert time_to_measure(1800) == 600
    assert time_to_measure(60) == pytest.approx(21)
    assert time_spent({"spent": 90.0, "budget": 120}) == "The search took 1.5 of the 2.0 minutes of its budget."


def test_what_was_trained_further_is_measured_again():
    state = _State(0.0)
    state.save = lambda **more: state.data.update(more)
    state.data |= {"speeds": {"cut": 1}, "measured": {"cut": {"model": "cut", "folder": "models/cut/0"}}}
    state.data["measured"]["tf-idf"] = {"model": "tf-idf", "folder": ""}
    finals = Finals(**dict.fromkeys(Finals.__dataclass_fields__) | {"state": state})
    finals._forget_old({"cut": "models/cut/0"})
    assert state.data["speeds"] == {"cut": 1}
    finals._forget_old({"cut": "models/cut/1"})
    assert state.data["measured"].keys() == {"tf-idf"}
    assert state.data["speeds"] == {}


def test_rows_of_the_report_say_on_which_rows_they_were_scored():
    row = {"name": "cut, round 1", "score": 80.0, "drop": 2.0, "rate": 90.0, "on_frontier": False, "chosen": False}
    assert cells(row)[-1] == ""
    assert cells(row | {"stop_rows": True})[-1] == "other rows"


def test_the_plot_shows_what_is_faster_by_the_ratios():
    """The machine slowed down for `cut`; the frontier goes by ratios, and so do the points of both plots."""
    plain = {"on_frontier": True, "chosen": False, "timed": True, "engine": "torch"}
    found = ("reference", 90, 100, 1), ("cut", 89, 200, 4), ("words", 70, 300, 3)
    rows = [
        plain | {"name": name, "family": name, "score": score, "rate": rate, "ratio": ratio}
        for name, score, rate, ratio in found
    ]
    assert [row["rate"] for row in even_rates(rows, rows[0])] == [100, 400, 300]
    drawn = frontier_svg({"table": [*rows[1:], rows[0]], "metric": "accuracy"})
    places = {name: float(x) for x, name in re.findall(r'cx="([\d.]+)".*<title>(\w+):', drawn)}
    assert places["reference"] < places["words"] < places["cut"]
    assert "<title>cut: 89.0, 4.0 times the throughput of the reference</title>" in drawn


def test_test_rows_are_the_same_for_all():
    right = {"reference": 45, "cut": 44, "words": 30}
    rows = {name: np.stack([np.arange(50) < count, np.ones(50)], 1).astype(float) for name, count in right.items()}
    found = tested.test_results(["reference", "cut", "cut", "words"], rows.__getitem__, METRIC)
    assert [(row["name"], row["rows"], row["score"]) for row in found] == [
        ("reference", 50, 90.0), ("cut", 50, 88.0), ("words", 50, 60.0),
    ]  # fmt: skip
    assert found[0]["drop_low"] == found[0]["drop_high"] == 0
    assert 0 <= found[1]["drop_low"] < 2 < found[1]["drop_high"] < 10
    said = tested.tested_sentence(found, "cut", Examples(["a text"] * 50))
    assert said.startswith(
        "On 50 test rows, which played no part, it scores 88.0 and the reference 90.0: a loss of +2.0"
    )


@pytest.mark.parametrize(("trained", "short"), [(40, True), (25, False)])
def test_a_reference_that_the_budget_cut_short_is_said(tmp_path, monkeypatch, capsys, trained, short):
    """Unless it stopped by itself, because it no longer got better."""

    def train(recipe, place, task, progress):
        progress(25, 130.0)
        print("what the trainer prints")
        model = place / "task" / "model"
        model.mkdir(parents=True)
        (model / "training.json").write_text(json.dumps([{"steps": trained}]))
        return model

    monkeypatch.setattr(reference, "train", train)
    state = _State(100.0)
    state.data |= {"reference_steps": 40, "reference_seconds": 170.0}
    data = Namespace(train=range(5000), task=None, tags=False)
    encoder = Encoder("minilm", False, 6, 384, "bert")
    reference._trained(encoder, data, tmp_path, state, 600.0, 64, METRIC, 0, print)
    said = "the budget left the reference 40 steps, where 781 were planned"
    assert any(said in note for note in state.notes) is short
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith("tokens, about 3 minutes; 8 minutes of the budget left")
    assert second == "the reference: 25 of up to 40 steps, about 2 minutes more; 8 minutes of the budget left"
    assert (tmp_path / "training.log").read_text() == "what the trainer prints\n"


def test_the_progress_of_a_training_counts_from_where_it_went_on(monkeypatch):
    """Steps of an earlier session took none of the time of this one."""
    said, clock = [], iter([50.0, 65.0])
    monkeypatch.setattr(trainer.time, "perf_counter", lambda: next(clock))
    progress = trainer.Progress(lambda *found: said.append(found))
    progress.on_train_begin(None, Namespace(global_step=10), None)
    for step in (10, 20, 40):  # nothing new yet, then a third of the rest in 15 seconds, and then all of it
        progress.on_evaluate(None, Namespace(global_step=step, max_steps=40), None)
    assert said == [(20, 30.0)]


def test_a_line_of_progress_says_what_is_left_of_the_whole_budget():
    assert of_budget(600.0, 100.0) == "8 minutes of the budget left"
    assert of_budget(600.0, 550.0) == "50 seconds of the budget left"
    assert of_budget(600.0, 600.0) == "the budget is used up"


def test_what_is_told_during_a_training_comes_at_its_usual_level(tmp_path, caplog):
    """The lines of a search are logged where it runs in Python, and trainings are kept quiet."""
    ours, lines = logging.getLogger("datamux.tuning.run"), []
    with caplog.at_level(logging.INFO, "datamux"), written_to(tmp_path / "training.log") as aloud:
        ours.info("a training")
        aloud(lambda: ours.info("a line of progress"))
        ours.info("the same training")
        lines = [record.message for record in caplog.records]
    assert lines == ["a line of progress"]


def test_a_mixed_finalist_is_judged_by_its_single_texts_too(monkeypatch):
    """Also if these were not timed; a mixed model that was not measured with them has no rows for them."""
    sizes = {"reference": [1], "mixed": [1, 5], "new": [5]}
    about = [{"model": name, "engine": "torch", "group_size": size} for name in sizes for size in sizes[name]]
    measured = {(name := _name(*one.values())): one | {"name": name, "score": 0.9, "folder": ""} for one in about}
    speed = dict.fromkeys(("rate", "ratio", "lowest", "highest"), 1.0) | {"positions": 0, "rates": []}
    timed = ["reference, torch", "mixed, torch, 5 per pass", "new, torch, 5 per pass"]
    for step in ("_score_models", "_score_rivals"):
        monkeypatch.setattr(Finals, step, lambda self: None)
    monkeypatch.setattr(Finals, "_for_timing", lambda self: [measured[name] for name in timed])
    monkeypatch.setattr(Finals, "_speeds", lambda self, chosen: dict.fromkeys(timed, speed))
    monkeypatch.setattr(Finals, "_rows", lambda self, name: np.ones((4, 2)))
    state = Namespace(data={"measured": measured})
    points, rows = Finals(**dict.fromkeys(Finals.__dataclass_fields__) | {"state": state}).run()
    assert [point.name for point in points] == timed
    assert rows.keys() == {*timed, "mixed, torch"}
    of_single = {one.point.model: (one.alone, one.meets_alone) for one in judge(points, rows, METRIC, Wish())}
    assert of_single == {"reference": (None, True), "mixed": (1.0, True), "new": (None, False)}


def test_each_step_of_the_finals_says_what_is_left(monkeypatch):
    """Every model on every engine, from the second on with an estimate, and the timing with its rounds."""
    state, lines = _State(400.0), []
    state.save = lambda **more: state.data.update(more)
    effort = Effort(models=9, timed=16, rounds=2, seconds=1.0)
    given = {"state": state, "budget": 1000.0, "engines": ["torch", "int8"], "rivals": list, "effort": effort}
    given |= {"data": Namespace(choice=Examples(["a text"]), labels=None), "tell": lines.append, "wish": Wish()}
    finals = Finals(**dict.fromkeys(Finals.__dataclass_fields__) | given)
    monkeypatch.setattr(Finals, "_predictor", lambda self, one: None)
    monkeypatch.setattr(finals_module, "score_predictor", lambda *args: Namespace(score=0.9, rows=None))
    monkeypatch.setattr(finals_module, "quick_rate", lambda *args: 1.0)

    def keep(self, about, rows):
        name = f"{about['model']}, {about['engine']}"
        state.data["measured"][name] = about | {"name": name, "seconds": 30.0}

    monkeypatch.setattr(Finals, "_keep", keep)
    model = {"name": "cut", "folder": "models/cut", "sizes": [1]}
    for engine in ("torch", "int8", "int8"):
        finals._score(model, engine)
    state.spent = 950.0
    monkeypatch.setattr(finals_module, "timed_predictor", lambda name, *args: Namespace(name=name))

    def time_all(timed, tell, **options):
        tell("round 1 of 2")
        return {one.name: 1 for one in timed}

    monkeypatch.setattr(finals_module, "time_all", time_all)
    finals._speeds(list(state.data["measured"].values()))
    assert lines == [
        "measuring cut on torch; 10 minutes of the budget left",
        "measuring cut on int8, about 45 seconds; 10 minutes of the budget left",
        "timing 2 finalists side by side, about 12 seconds; 50 seconds of the budget left",
        "round 1 of 2; 50 seconds of the budget left",
    ]


def test_rivals_that_could_not_be_fitted_are_tried_again(monkeypatch):
    """After a kill, a rival that was scored may be missing from the timing; the others are timed."""
    state = _State(0.0)
    state.save = lambda **more: state.data.update(more)
    given = {"state": state, "rivals": list, "effort": Effort(9, 16, 1, 0.0), "tell": lambda text: None, "budget": 9.0}
    finals = Finals(**dict.fromkeys(Finals.__dataclass_fields__) | given)
    finals._score_rivals()
    assert not state.data["rivals_scored"]
    monkeypatch.setattr(Finals, "_predictor", lambda self, one: None)
    monkeypatch.setattr(finals_module, "timed_predictor", lambda name, *args: Namespace(name=name))
    monkeypatch.setattr(finals_module, "time_all", lambda timed, **options: {one.name: 1 for one in timed})
    finals.data = Namespace(choice=None)
    chosen = [{"model": "reference", "engine": "torch", "group_size": 1, "name": "reference, torch"}]
    chosen += [{"model": "TF-IDF", "engine": RIVAL, "group_size": 1, "name": "TF-IDF, scikit-learn"}]
    assert finals._speeds(chosen).keys() == {"reference, torch"}
    state.data["measured"] = {one["name"]: one for one in chosen}
    of_rows = Point("TF-IDF", RIVAL, 1, 0, 0, 0, 0, 0, 0)
    assert not finals.can_be_tested(of_rows)
    state.data["measured"][of_rows.name]["tested"] = True
    assert finals.can_be_tested(of_rows)


class _Answers:
    """A predictor that is always right, and remembers in which orders it was asked."""

    def __init__(self):
        self.orders = []

    def stream(self, texts, group_size):
        self.orders.append(list(texts))
        yield from ({"label": "a"} for _ in texts)


def test_every_engine_and_the_test_rows_answer_as_many_groupings():
    """Otherwise the choice would favour the engine whose only grouping had lucky neighbours."""
    rows, labels = Examples([f"text {row}" for row in range(30)], labels=["a"] * 30), find_labels(["a", "b"])
    for size, wanted in ((1, 1), (5, GROUPINGS)):
        predictor = _Answers()
        assert score_predictor(predictor, rows, labels, METRIC, size).score == 1.0
        _, *orders = predictor.orders
        assert len(orders) == wanted
        assert len({tuple(order) for order in orders}) == wanted


def test_a_first_look_runs_as_many_passes_at_every_group_size(monkeypatch):
    asked, clock = [], iter([0.0, 4.0, 10.0, 12.0])
    monkeypatch.setattr(measure, "FromTexts", lambda *args: lambda rows, positions: asked.append(rows))
    monkeypatch.setattr(measure.time, "perf_counter", lambda: next(clock))
    assert measure.quick_rate(None, ["a"], 10) == 2560 / 2.0, "the better of two"
    assert asked == [2560] * 3
