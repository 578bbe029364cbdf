"""Which model is chosen, how sure that is, and what is said if nothing is good enough."""

from dataclasses import replace

import pytest

from datamux.evaluate.frontier import mark_best
from datamux.tuning.choice import better_rival, choose, judge, recommendation, smallest_loss, tenfold_sentence
from datamux.tuning.settings import Settings, Wish, parse_budget
from tuning import METRIC, ROWS, numbers, point

WRONG = {"reference": 100, "half": 104, "mixed": 109, "words": 180}
POINTS = mark_best(
    [point("reference", 100, 1.0), point("half", 104, 3.0), point("mixed", 109, 4.0, 5), point("words", 180, 40.0)]
)


def judged(**wish):
    return judge(POINTS, {p.name: numbers(WRONG[p.model]) for p in POINTS}, METRIC, Wish(**wish))


def chosen(**wish):
    return choose(judged(**wish), Wish(**wish))


def test_the_fastest_within_the_points():
    assert chosen().best.point.model == "mixed"
    assert chosen(max_drop=0.5).best.point.model == "half"
    assert chosen(max_drop=0).best.point.model == "reference"
    assert chosen(max_drop=10).best.point.model == "words"


def test_being_surer_costs_speed():
    found = {one.point.model: one for one in judged()}
    assert 0.5 < found["mixed"].chance < 0.8
    assert found["half"].chance > 0.95
    assert found["half"].drop_low <= 0.4 <= found["half"].drop_high
    assert chosen(sure=0.95).best.point.model == "half"


def test_a_score_or_a_speed_can_be_asked_for():
    assert chosen(min_score=80).best.point.model == "words"
    assert chosen(min_score=89.3).best.point.model == "half"
    assert chosen(min_speed=140).best.point.model == "half", "the most accurate that is fast enough"
    assert chosen(min_speed=1000).best.point.model == "words"


def test_if_nothing_is_good_enough_the_nearest_is_named():
    found = chosen(min_score=99)
    assert not found.met
    assert found.best.point.model == "reference"
    assert "the best scores 90.0" in found.why
    slow = chosen(min_speed=10_000)
    assert not slow.met
    assert slow.best.point.model == "words"
    assert "the fastest answers 2,000" in slow.why


def test_three_sentences():
    lines = recommendation(chosen(), judged(), METRIC, ROWS, Wish())
    assert lines[0].startswith("Use mixed, torch, 5 per pass: 4.0 times the throughput of reference, torch (200 texts")
    assert "loses 0.9 points of accuracy (90.0 to 89.1)" in lines[0]
    assert "in 6" in lines[1] or "in 5" in lines[1] or "in 7" in lines[1]
    assert lines[1].endswith("It was chosen among 4 on these very rows, so expect a little more loss on others.")
    assert lines[2] == (
        "Multiplexing is on the frontier with mixed, torch, 5 per pass "
        "(4.0 times the throughput, and it loses 0.4 to 1.5 points; in 100% of the samples no plain model that is as "
        "fast scores as much, the nearest is words, torch with 82.0 at 40.0 times the throughput)."
    )
    rival = [replace(one, point=replace(one.point, model="TF-IDF", score=0.95, ratio=9.0)) for one in judged()[:1]]
    beaten = recommendation(chosen(), judged(), METRIC, ROWS, Wish(), rival)[2]
    assert beaten.endswith("times the throughput; TF-IDF is both faster and better).")
    without = [one for one in judged() if one.point.group_size == 1]
    assert recommendation(chosen(), without, METRIC, ROWS, Wish())[2].startswith("No multiplexed model")


def test_how_sure_a_mixed_point_is_on_the_frontier():
    """Two models that are right on other rows: which of them is better depends on the sample."""

    def mixed_beside(*plain, mixed_ratio=4.0):
        points = [point("reference", 100, 1.0), point("mixed", 110, mixed_ratio, 5)]
        points += [point("mixed", 105, 1.0), *(point(name, 112, ratio) for name, ratio in plain)]
        rows = {one.name: numbers(round(ROWS * (1 - one.score))) for one in points}
        rows |= {points[place].name: rows[points[place].name][::-1] for place in range(3, len(points))}
        return judge(mark_best(points), rows, METRIC, Wish())[1]

    close = mixed_beside(("cut", 4.5), ("slow", 2.0))
    assert 0.45 < close.ahead < 0.65, "two right answers of a thousand are almost nothing"
    assert close.competitor.model == "cut"
    alone = mixed_beside(("slow", 2.0), ("slower", 1.5))
    assert (alone.ahead, alone.competitor.model) == (1.0, "slow")
    said = recommendation(chosen(), [judged()[0], close], METRIC, ROWS, Wish())[2]
    assert f"in {close.ahead:.0%} of the samples no plain model that is as fast scores as much" in said
    assert "the nearest is cut, torch with 88.8 at 4.5 times the throughput" in said
    said = recommendation(chosen(), [judged()[0], alone], METRIC, ROWS, Wish())[2]
    assert "no plain model is as fast, the nearest is slow, torch with 88.8" in said


def test_a_rival_that_does_better_is_named():
    """Whether it is better depends on what was asked for."""
    found = {one.point.model: one for one in judged(max_drop=10)}
    rival, none = [found["words"]], [found["mixed"]]
    assert better_rival(rival, chosen(max_drop=0.5), Wish(max_drop=0.5)).startswith(
        "words from scikit-learn does better"
    )
    assert "it keeps at most 10 points below the reference in" in better_rival(rival, chosen(), Wish(max_drop=10))
    assert better_rival(none, chosen(max_drop=10), Wish(max_drop=10)) == "", "it is slower than what was chosen"
    strict = [one for one in judged(max_drop=1) if one.point.model == "words"]
    assert better_rival(strict, chosen(max_drop=1), Wish(max_drop=1)) == "", "it loses too much"
    quick = [one for one in judged(min_speed=100) if one.point.model == "words"]
    assert better_rival(quick, chosen(min_speed=100), Wish(min_speed=100)) == "", "it is faster, but not more accurate"


def test_the_smallest_loss_for_ten_times_the_throughput():
    found = smallest_loss(judged(), 10)
    assert found.point.model == "words"
    assert tenfold_sentence(found).startswith("The smallest loss for 10 times the throughput is +8.0 points")
    assert smallest_loss(judged(), 4).point.model == "mixed"
    assert smallest_loss(judged(), 50) is None
    assert tenfold_sentence(None) == "Nothing that was trained has 10 times the throughput of the reference."


def test_a_speed_must_be_sure_too():
    """Every round of the timing is a sample."""
    shaky = [replace(point, rates=[150.0, 160.0, 130.0, 155.0]) if point.ratio == 3 else point for point in POINTS]
    rows = {p.name: numbers(WRONG[p.model]) for p in POINTS}

    def half(**wish):
        return next(one for one in judge(shaky, rows, METRIC, Wish(**wish)) if one.point.model == "half")

    assert half(min_speed=140).chance == 0.75
    assert half(min_speed=140).meets
    assert not half(min_speed=140, sure=0.9).meets


@pytest.mark.parametrize(
    ("text", "seconds"), [("45m", 2700), ("1h30m", 5400), ("90", 90), ("2.5h", 9000), ("20 s", 20)]
)
def test_a_budget_is_a_time(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5x", "-3m", "3s", "1h and a bit"])
def test_a_bad_budget_is_named(text):
    with pytest.raises(ValueError, match="budget must be"):
        parse_budget(text)


def test_bad_wishes_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"--max-drop and --min-speed cannot be combined"):
        Wish(max_drop=1, min_speed=5)
    for wish in ({"max_drop": -1}, {"min_score": 0}, {"min_speed": 0}, {"sure": 1}):
        with pytest.raises(ValueError, match=f"--{next(iter(wish)).replace('_', '-')} must be"):
            Wish(**wish)
    with pytest.raises(ValueError, match="give your rows with --train FILE"):
        Settings(out=tmp_path)
