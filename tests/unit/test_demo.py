"""The demo's figures on a zoo of untrained toys: whose answers are shown, and what stands beside them."""

import json

import pytest
from typer.testing import CliRunner

import datamux
from conftest import tiny_encoder
from datamux import zoo
from datamux.cli import app
from datamux.evaluate import demo
from datamux.evaluate.demo import FIRST, POSITIONS, choose_pace
from datamux.evaluate.timing import Contender

NAMES = ("toy", "toy-plain")


@pytest.fixture
def toys(tmp_path, monkeypatch, tokenizer):
    for name, n in zip(NAMES, (3, 1), strict=True):
        datamux.multiplex(tiny_encoder(), n).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        scores = {"1": 0.5, "3": 0.25} if n > 1 else {"1": 0.75}
        card = {"what": "a toy", "metric": "accuracy", "num_instances": n, "scores": scores}
        (tmp_path / name / "card.json").write_text(json.dumps(card))
    monkeypatch.setattr(zoo, "HOME", tmp_path)
    monkeypatch.setitem(demo.SENTENCES, "toy", ("good film", "bad film", "the plot", "anna"))


def measure(texts=(), **options):
    pair = demo.load_pair("toy")
    return demo.measure_speed(pair, texts, **({"seconds": 0.01, "rounds": 2, "max_seconds": 60.0} | options))


def test_own_texts_are_answered_in_the_company_of_ours(toys):
    shown = demo.answer_texts(demo.load_pair("toy"), ["very good", "not bad"])
    assert shown.texts == ["very good", "not bad"]
    assert shown.mixed == datamux.load("toy")(["very good", "not bad", "good film"])[:2]
    assert shown.plain == datamux.load("toy-plain")(["very good", "not bad"])
    assert (shown.group_size, shown.company) == (3, 1)


def test_a_pass_is_full_of_different_texts(toys):
    shown = demo.answer_texts(demo.load_pair("toy"), ["good film", "not bad", "good film"])
    assert (shown.texts, shown.company) == (["good film", "not bad"], 1)
    assert shown.mixed == datamux.load("toy")(["good film", "not bad", "bad film"])[:2]


def test_without_texts_ours_are_answered(toys):
    assert demo.answer_texts(demo.load_pair("toy"), []).texts == list(demo.SENTENCES["toy"])


def test_speeds_stand_beside_the_scores_of_the_cards(toys):
    speeds = measure()
    assert [(row["group_size"], row["score"]) for row in speeds] == [(1, 0.75), (3, 0.25)]
    assert speeds[0]["ratio"] == 1
    assert len(speeds[1]["rates"]) == 2


def test_without_time_one_small_round_is_measured(toys):
    speeds = measure(rounds=50, max_seconds=0.0)
    assert {len(row["rates"]) for row in speeds} == {1}
    assert [row["positions"] for row in speeds] == [FIRST, POSITIONS[-1]]
    assert speeds[1]["instances"] < speeds[0]["instances"] * 3


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (0.01, ([2048, 2048], 3)),  # 256 positions take a hundredth of a second: everything fits
        (0.05, ([2048, 512], 3)),
        (0.17, ([1024, 256], 2)),  # 0.68 s a pass of 1024: two contenders, 3 passes each, then 3 passes a round
        (1.0, ([1024, 128], 1)),  # the least there is
    ],
)
def test_a_slow_machine_gets_less_to_do(machine, expected):
    now = [0.0]

    def works(factor):
        def work(instances, positions):
            now[0] += factor * machine * positions / 256

        return work

    contenders = [Contender("plain", works(1), 1, 16.0), Contender("5 per pass", works(4), 5, 16.0)]
    assert choose_pace(contenders, rounds=3, seconds=0.1, max_seconds=9.0, clock=lambda: now[0]) == expected


def test_the_demo_is_not_led_astray_by_a_folder_of_that_name(toys, tmp_path, monkeypatch):
    other = tmp_path / "elsewhere"
    datamux.multiplex(tiny_encoder(), 2).save_pretrained(other / "toy")
    monkeypatch.chdir(other)
    assert demo.load_pair("toy").mixed.num_instances == 3


def test_answers_are_printed_before_anything_is_measured(toys, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "SENTENCES", {"toy": demo.SENTENCES["toy"]})
    command = ["demo", "very good", "--rounds", "1", "--seconds", "0.01", "--plot", str(tmp_path / "demo.png")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "toy: measuring: round 1 of 1" in done.stderr, "progress is told where stderr is no terminal, too"

    def interrupted(*given, **options):
        raise RuntimeError("not yet measured")

    monkeypatch.setattr(demo, "measure_speed", interrupted)
    done = CliRunner().invoke(app, command)
    assert "very good" in done.stdout
    assert "not yet measured" in str(done.exception)


def test_equal_answers_are_counted_without_their_scores():
    good, bad = {"label": "good", "score": 0.9}, {"label": "bad", "score": 0.9}
    shown = demo.Shown("toy", "accuracy", 3, ["a", "b"], [good, bad], [{"label": "good", "score": 0.6}, good], [])
    assert shown.equal == 0.5
    spans = [{"word": "Paris", "entity_group": "LOC", "score": 0.9}]
    assert demo.Shown("toy", "f1", 3, ["a", "b"], [spans, []], [[spans[0] | {"score": 0.1}], []], []).equal == 1


def test_it_is_drawn(toys, tmp_path):
    shown = demo.answer_texts(demo.load_pair("toy"), [])
    shown.speeds = measure(rounds=1)
    demo.draw_demo([shown, shown], tmp_path / "demo.png")
    assert (tmp_path / "demo.png").stat().st_size > 10_000


def test_the_next_steps_can_be_typed_as_they_stand(monkeypatch):
    from datamux.cli import demo as command

    monkeypatch.setattr(command.shutil, "which", lambda name: None)
    monkeypatch.setattr(command.sys, "argv", [".venv/bin/datamux", "demo"])
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert "\n  .venv/bin/datamux predict sentiment" in command._next_steps()
    assert command._next_steps().endswith("(in a checkout: '.[train]')")
    monkeypatch.setattr(command.sys, "argv", ["datamux/cli/__main__.py", "demo"])
    assert "\n  datamux predict sentiment" in command._next_steps()
    monkeypatch.setattr(command.shutil, "which", lambda name: "/usr/bin/datamux")
    monkeypatch.setattr(command, "find_spec", lambda name: "found")
    assert command._next_steps().splitlines()[-1].startswith("  datamux train --train YOURS.csv")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--plot", "demo.xyz"], "unknown ending of a plot '.xyz'; allowed: .jpeg, .jpg, .pdf, .png, .svg"),
        (["--plot", "nowhere/demo.png"], "no such folder for the plot: nowhere"),
        (["good", " "], "one of the texts is empty"),
    ],
)
def test_what_cannot_be_shown_is_said_before_anything_is_loaded(given, message, monkeypatch):
    monkeypatch.setattr(demo, "load_pair", None)
    done = CliRunner().invoke(app, ["demo", *given])
    assert message in str(done.exception)


def test_answers_that_differ_are_marked(capsys):
    from datamux.cli import demo as command

    good, bad = {"label": "good", "score": 0.9}, {"label": "bad", "score": 0.9}
    command._print_answers(demo.Shown("toy", "accuracy", 3, ["one", "two"], [good, good], [good, bad]))
    said = capsys.readouterr().out
    assert "bad 90% *" in said
    assert "good 90% *" not in said
    assert "50% of the answers are the same as the plain model's; * marks the others" in said
