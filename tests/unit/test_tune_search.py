"""How a search shares its time: the pace of a step, equal shares, and a fair start."""

import random
from argparse import Namespace
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from torch import nn

from conftest import write_jsonl
from datamux.hub.loading import load_tokenizer
from datamux.tasks.examples import Examples
from datamux.tasks.labels import find_labels
from datamux.tasks.rows import encode_examples
from datamux.tasks.task import load_split
from datamux.train.recipe import parse_recipe
from datamux.train.trainer import SimilarLengths
from datamux.tuning import pace, search
from datamux.tuning.contender import PLAIN, PLAIN_MODEL, Contender
from datamux.tuning.data import prepare
from datamux.tuning.families import FAMILIES
from datamux.tuning.settings import Settings
from datamux.tuning.state import State
from datamux.tuning.subject import Encoder, Subject
from tuning import write_encoder


class Recorder(nn.Module):
    """A model that only remembers the shapes of its batches, and at which group sizes they came."""

    def __init__(self):
        super().__init__()
        self.weight, self.seen = nn.Parameter(torch.zeros(1)), []

    def forward(self, input_ids, group_size, **more):
        self.seen.append((*input_ids.shape, group_size))
        return Namespace(loss=self.weight.sum())


def skewed(count):
    """Most texts are short, and a few are long."""
    chance = random.Random(0)
    texts = [" ".join(["film"] * (chance.randint(25, 30) if chance.random() < 0.1 else 4)) for _ in range(count)]
    return Examples(texts, labels=["a", "b"] * (count // 2))


def recorded(tmp_path, monkeypatch, **sections):
    model, labels = Recorder(), find_labels(["a", "b"])
    monkeypatch.setattr(pace, "build", lambda *args, **options: model)
    start = write_encoder(tmp_path)
    recipe = parse_recipe({"model": {"start": start, "max_tokens": 40} | sections["model"], "task": sections["task"]})
    examples = skewed(1000)
    assert pace.seconds_per_step(recipe, examples, labels, "sequence") > 0
    return model.seen, encode_examples(examples, labels, load_tokenizer(start), 40)


def test_the_pace_is_that_of_batches_of_similar_length(tmp_path, monkeypatch):
    seen, rows = recorded(tmp_path, monkeypatch, model={"num_instances": 1}, task={"groups": 16, "min_rows": 16})
    order = torch.tensor(list(SimilarLengths(rows, 16, seed=0, noise=0.2)))
    in_training = fmean(float((rows.ends - rows.starts)[some].max()) for some in order.split(16))
    timed = [width for _, width, _ in seen[1:]]
    assert fmean(timed) == pytest.approx(in_training, rel=0.5)
    assert fmean(timed) < 12, "a batch at random is as wide as its longest text"


def test_the_pace_of_a_mixed_training_is_that_of_the_sizes_it_draws(tmp_path, monkeypatch):
    task = {"groups": 4, "min_rows": 8, "elastic": 0.5, "start_size": 1}
    seen, _ = recorded(tmp_path, monkeypatch, model={"num_instances": 9}, task=task)
    assert {(rows, size) for rows, _, size in seen} == {(36, 9), (12, 3)}
    small = parse_recipe({"model": {"num_instances": 9}, "task": task})
    assert pace._sizes(small) == {9: 0.25, 3: 0.75}
    grown = parse_recipe({"model": {"num_instances": 9}, "task": task | {"start_size": "capacity"}})
    assert pace._sizes(grown) == {9: 0.5, 3: 0.5}


def searching(**given) -> search.Search:
    return search.Search(**dict.fromkeys(search.Search.__dataclass_fields__) | given)


class Clock:
    """The state of a search, whose time passes only when a training says so."""

    def __init__(self):
        self.spent, self.data, self.notes = 0.0, {"trials": {}}, []

    def note(self, text, tell, **options):
        self.notes.append(text)

    def save(self, **more):
        self.data |= more


def raced(monkeypatch, paces, seconds, slower=1.0, rows=10**6, epochs=12.0, rung=0, families=None):
    """(seconds that each contender trained, the search): each step takes `slower` times as long as it was timed."""
    clock, took = Clock(), {}
    contenders = [
        Contender(name, (families or {}).get(name, name), PLAIN_MODEL, PLAIN, epochs=epochs) for name in paces
    ]

    def train(self, contender, rung, steps, most, pace):
        took[contender.name] = steps * paces[contender.name] * search.SLOWER * slower
        clock.spent += took[contender.name]

    monkeypatch.setattr(search.Search, "_train", train)
    monkeypatch.setattr(search.Search, "_pace", lambda self, contender, rung: paces[contender.name])
    found = searching(state=clock, deadline=seconds, tell=lambda text: None)
    found._texts = rows
    found._rung(contenders, rung, seconds)
    return took, found


def test_all_contenders_have_the_same_time(monkeypatch):
    took, _ = raced(monkeypatch, {"slow": 0.5, "quick": 0.05, "middle": 0.1}, 3000.0)
    assert all(seconds == pytest.approx(1000.0, rel=0.01) for seconds in took.values())


def test_time_that_one_does_not_need_is_shared_evenly(monkeypatch):
    """Also if a training is quicker than its pace: the last one gains nothing by coming last."""
    wanted = {"a": 100.0, "b": 5000.0, "c": 9000.0}
    assert search.equal_shares(wanted, 3000.0, {}) == pytest.approx({"a": 100.0, "b": 1450.0, "c": 1450.0})
    assert search.equal_shares(wanted, 99_999.0, {}) == wanted
    assert search.equal_shares(wanted, 3000.0, {"c": 2000.0}) == pytest.approx({"a": 100.0, "b": 900.0, "c": 2000.0})
    assert search.equal_shares(wanted, 1000.0, {"c": 2000.0}) == pytest.approx({"a": 0.0, "b": 0.0, "c": 1000.0})
    assert search.equal_shares(wanted, -5.0, {}) == {"a": 0.0, "b": 0.0, "c": 0.0}
    took, _ = raced(monkeypatch, {"slow": 0.5, "quick": 0.05, "middle": 0.1}, 3000.0, slower=0.5)
    assert all(seconds == pytest.approx(500.0, rel=0.01) for seconds in took.values())


def test_if_trainings_are_late_all_that_follow_lose_alike(monkeypatch):
    took, found = raced(monkeypatch, {"slow": 0.5, "quick": 0.05, "middle": 0.1}, 3000.0, slower=1.2)
    assert found.state.spent <= 3000.0 * 1.2
    assert min(took.values()) > 700


def test_a_first_round_has_at_least_a_hundred_steps(monkeypatch):
    took, found = raced(monkeypatch, {"slow": 2.0, "quick": 0.01, "middle": 0.01}, 400.0)
    assert took["slow"] == pytest.approx(search.FAIR_START * 2.0 * search.SLOWER)
    assert took["quick"] == pytest.approx(took["middle"]) == pytest.approx(70.0, rel=0.01)
    assert found.state.notes == []
    later, _ = raced(monkeypatch, {"slow": 2.0, "quick": 0.01, "middle": 0.01}, 400.0, rung=1)
    assert later["slow"] == pytest.approx(400.0 / 3, rel=0.02), "later rounds share the time evenly"


def test_without_time_for_a_fair_start_fewer_of_a_family_take_part(monkeypatch):
    paces = {"4 layers": 2.0, "2 layers": 1.0, "1 layer": 0.5, "mixed": 3.0, "words": 0.01}
    families = {name: "cut" for name in paces if "layer" in name}
    took, found = raced(monkeypatch, paces, 600.0, families=families)
    assert took.keys() == {"2 layers", "1 layer", "mixed", "words"}
    assert all(seconds >= 99 * search.SLOWER * paces[name] for name, seconds in took.items())
    (note,) = found.state.notes
    assert "only to 4 of 5 contenders, so these did not take part: 4 layers" in note
    trial = found.state.data["trials"]["4 layers #0"]
    assert trial["failed"] == "no time for a fair start"
    assert not found._done(Contender("4 layers", "cut", {}), 0), "a larger budget trains it"
    few, found = raced(monkeypatch, paces, 90.0, families=families)
    assert "fewer than 100 steps to begin with" in found.state.notes[1]
    assert few.keys() == {"1 layer", "mixed", "words"}, "one of every family is left"


@pytest.mark.parametrize(("labelled", "unlabelled", "kept"), [(900, 300, (600, 0)), (400, 300, (400, 200))])
def test_the_reference_is_asked_no_more_than_there_is_time_for(tmp_path, labelled, unlabelled, kept):
    """The texts are drawn once, and an interrupted search has the same ones again."""
    rows = [{"text": f"text {row}", "label": "ab"[row % 2]} for row in range(labelled)]
    data = prepare(Settings(out=tmp_path, train=write_jsonl(tmp_path, "train.jsonl", rows)), tmp_path / "rows")
    data = replace(data, train=Examples([row["text"] for row in rows], labels=[row["label"] for row in rows]))
    more = str(write_jsonl(tmp_path, "more.jsonl", [{"text": f"more {row}"} for row in range(unlabelled)]))
    clock = Clock()
    clock.data["reference"] = {"rate": 20.0}

    def limited():
        given = {"data": data, "unlabelled": more, "folder": tmp_path / "search", "seed": 0, "deadline": 100.0}
        found = searching(state=clock, tell=lambda text: None, **given)
        found._limit_asking()
        return found

    first = limited()
    assert (len(first.data.train), first._texts) == (kept[0], 600), "30 seconds at 20 texts per second"
    assert len(load_split(first.data.task, "train")) == kept[0]
    assert bool(first.unlabelled) is bool(kept[1])
    assert "the contenders learn from 600 of" in clock.notes[0]
    clock.spent = 99.0
    again = limited()
    assert again.data.train.texts == first.data.train.texts
    assert (again._texts, again.unlabelled) == (600, first.unlabelled)


@pytest.mark.parametrize(("hidden", "rate"), [(384, 2e-4), (512, 2e-4), (768, 5e-5)])
def test_what_goes_on_from_a_wide_encoder_learns_slowly(hidden, rate):
    encoder = Encoder("encoder", False, 12, hidden, "bert")
    subject = Subject(encoder, "models/reference", True, 64, False, 1000)
    families = ("cut", "mixed", "cut and mixed")
    rates = {family: {one.task["learning_rate"] for one in FAMILIES[family](subject)} for family in families}
    assert all(found == {rate} for found in rates.values())


@pytest.mark.parametrize(
    ("error", "done"),
    [(ValueError("the tokenizer has 9 words"), True), (OSError(28, "no space left on device"), False),
     (MemoryError(), False), (RuntimeError("can't allocate memory"), False)],
)  # fmt: skip
def test_only_a_failure_that_will_repeat_is_final(error, done):
    found = searching(state=Clock(), tell=lambda text: None)
    contender = Contender("cut", "cut", {})
    assert not found._done(contender, 0)
    found._leave_out(contender, 0, error)
    assert found._done(contender, 0) is done
    failed = dict(found._trial(contender, 0))
    found._skip(contender, 0)
    assert found._trial(contender, 0) == failed, "without time for another try, the reason stays"


def test_notes_about_what_is_done_once_last(tmp_path):
    state = State(tmp_path, {})
    state.begin_notes()
    state.note("the rivals learned from a part", print, lasts=True)
    state.note("no time was left", print)
    state.save()
    again = State(tmp_path, {})
    again.begin_notes()
    assert again.data["notes"] == ["the rivals learned from a part"]
