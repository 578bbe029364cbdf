"""The audit: a model that ignores its neighbours gets a clean report, one that reads them does not."""

import json
import re
from copy import copy

import pytest
import torch

from command_line import run
from datamux.audit.advice import advice_of, chance_of_spread, headline_of, leaks
from datamux.audit.consistency import consistency, upper_bound
from datamux.audit.explain import explain_text
from datamux.audit.leakage import leakage
from datamux.audit.page import as_html
from datamux.audit.probe import area_under_curve, probe_scores
from datamux.audit.slots import position
from datamux.audit.subject import load_subject, random_groups
from datamux.audit.worst_case import exchange, worst_case
from datamux.tasks.labels import Labels
from datamux.tasks.rows import Rows

ROWS, K = 40, 4


class Fake:
    """Right about every text with 0.8; each neighbour with label 1 takes `pull` away. One word tells the label."""

    tags = False
    labels = Labels(("neg", "pos"))

    def __init__(self, pull=0.0):
        self.pull = pull
        self.truth = [torch.tensor([row % 2]) for row in range(ROWS)]
        self.rows = Rows([[2, 7 + row % 2, 20 + row % 5, 3] for row in range(ROWS)], pad_id=0)

    def ask_all(self, groups):
        return [[self._answer(rows, slot) for slot in range(len(rows))] for rows in groups.tolist()]

    def ask(self, groups, slots):
        return [self._answer(rows, slot) for rows, slot in zip(groups.tolist(), slots.tolist(), strict=True)]

    def represent(self, groups):
        labels = (groups % 2).float()  # g k
        others = labels.roll(-1, 1) if self.pull else torch.zeros_like(labels)
        noise = torch.rand(*labels.shape, 3, generator=torch.Generator().manual_seed(0))
        return torch.cat([labels[..., None], others[..., None], noise], -1), noise

    def _answer(self, rows, slot):
        own = rows[slot]
        right = 0.8 - self.pull * sum(row % 2 for place, row in enumerate(rows) if place != slot)
        return torch.tensor([[right, 1 - right] if own % 2 == 0 else [1 - right, right]])


def test_a_row_keeps_its_slot_and_is_never_its_own_neighbour():
    chosen, slots = torch.arange(12), torch.arange(12) % 5
    groups = random_groups(12, 5, chosen, slots, torch.Generator().manual_seed(0))
    assert groups.shape == (12, 5)
    assert (groups[torch.arange(12), slots] == chosen).all()
    assert all(len(set(group)) == 5 for group in groups.tolist())


@pytest.mark.parametrize(("pull", "changes"), [(0.0, False), (0.15, True)])
def test_consistency_and_worst_case_notice_neighbours(pull, changes):
    steady = consistency(Fake(pull), K, texts=20, draws=6)
    assert (steady["flips"] > 0.05, steady["touched"] > 0.1, steady["movement"] > 0.01) == (changes,) * 3
    attack = worst_case(Fake(pull), K, texts=8, tries=32)
    assert (attack["success"] > 0.9) is changes
    assert attack["curve"][-1] == [32, attack["success"]]
    assert (attack["median_tries"] is None) is not changes
    assert attack["chance_curve"][-1] == [32, attack["by_chance"]]
    assert attack["changed"] == round(attack["success"] * attack["texts"])


def test_choosing_neighbours_beats_random_ones():
    """All seven neighbours must have label 1: seldom by chance, but the search comes nearer in every round."""
    attack = worst_case(Fake(0.043), 8, texts=12, tries=160)  # 0.8 - 7 * 0.043 < 0.5
    assert attack["success"] > attack["by_chance"] + 0.2


def test_an_exchange_never_seats_a_row_twice_even_in_a_small_pool():
    generator = torch.Generator().manual_seed(0)
    groups = torch.stack([torch.randperm(9, generator=generator)[:8] for _ in range(50)])
    stays = torch.rand(50, 8, generator=generator) >= 0.3
    found = exchange(groups, stays, 9, generator)
    assert all(len(set(group)) == 8 for group in found.tolist())
    assert (found[stays] == groups[stays]).all()
    assert (found != groups).any(1).float().mean() > 0.5, "places that do not stay get other rows"


def test_few_texts_leave_more_doubt_about_flips():
    generator = torch.Generator().manual_seed(0)
    never = [upper_bound(torch.zeros(texts), 10, generator) for texts in (40, 200)]
    assert never[0] > 0.01 > never[1] > 0, "forty texts without a flip do not show that it is below one percent"
    flips = torch.tensor([0.2] * 20 + [0.0] * 180)
    assert 0.02 < upper_bound(flips, 10, generator) < 0.04


def test_flips_are_the_share_of_pairs_that_differ():
    class Half(Fake):
        turn = 0

        def ask(self, groups, slots):
            self.turn += 1
            p = [0.9, 0.1] if self.turn % 2 else [0.1, 0.9]
            return [torch.tensor([p]) for _ in slots]

    found = consistency(Half(), K, texts=5, draws=4)
    assert found["flips"] == pytest.approx(4 / 6)  # of six pairs of draws, four differ
    assert found["touched"] == 1.0


def test_a_probe_finds_what_is_there_and_nothing_else():
    clean, leaking = leakage(Fake(), K, groups=200), leakage(Fake(0.15), K, groups=200)
    assert not leaks(clean)
    assert leaks(leaking)
    assert leaking["label_from_state"] == 1.0, "the state holds the neighbour's label"
    assert leaking["words_from_state"] > clean["words_from_state"] + 0.05  # two of seven words tell the label
    assert leaking["label_from_logits"] == pytest.approx(leaking["chance"], abs=0.15), "the logits hold only noise"
    assert clean["label_from_own_state"] == 1.0
    share = clean["chance"]
    assert clean["error"] == pytest.approx((share * (1 - share) / (ROWS / 2)) ** 0.5), "groups share the same rows"


def test_the_area_under_the_curve():
    truth = torch.tensor([0, 0, 1, 1])
    assert area_under_curve(torch.tensor([0.1, 0.2, 0.3, 0.4]), truth) == 1.0
    assert area_under_curve(torch.tensor([0.4, 0.3, 0.2, 0.1]), truth) == 0.0
    assert area_under_curve(torch.tensor([0.1, 0.2]), torch.tensor([1, 1])) is None
    x = torch.eye(4).repeat(8, 1)
    assert (probe_scores(x, x, x).argmax(-1) == x.argmax(-1)).all()


def test_a_worse_slot_is_found():
    class Worse(Fake):
        def _answer(self, rows, slot):
            p = super()._answer(rows, slot)
            return p.flip(-1) if slot == 2 else p

    found = position(Worse(), K, groupings=2)
    assert found["slots"] == [1.0, 1.0, 0.0, 1.0]
    assert chance_of_spread(found) < 1e-6


def test_equal_slots_seldom_look_different():
    """The chance of a spread follows chi-square, so that one equal model of a hundred is below 1%."""
    generator = torch.Generator().manual_seed(0)
    for k in (2, 10, 20):
        slots = 0.02 * torch.randn(2000, k, generator=generator)
        chances = [
            chance_of_spread({"group_size": k, "spread": float(some.std(correction=0)), "expected": 0.02})
            for some in slots
        ]
        assert sum(chance < 0.01 for chance in chances) / 2000 == pytest.approx(0.01, abs=0.008)


def test_words_of_a_text_are_right_or_wrong_together():
    class Tagger(Fake):
        """Wrong in every word of two texts of five: four words say no more than one."""

        def __init__(self, words):
            super().__init__()
            self.truth = [torch.zeros(words, dtype=torch.long) for _ in range(ROWS)]

        def _answer(self, rows, slot):
            right = rows[slot] % 5 > 1
            return torch.tensor([[0.9, 0.1] if right else [0.1, 0.9]]).repeat(len(self.truth[0]), 1)

    one, four = (position(Tagger(words), K) for words in (1, 4))
    assert four["expected"] == pytest.approx(one["expected"])
    share, texts = 0.6, 3 * ROWS / K
    assert one["expected"] == pytest.approx((share * (1 - share) / texts) ** 0.5, rel=0.05)


@pytest.fixture
def rows(tmp_path):
    texts = ("good film,pos", "bad film,neg", "the plot was very good .,pos", "a plot is not good .,neg")
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"{text}\n" for text in texts * 5))
    return tmp_path / "rows.csv"


def test_the_command_writes_a_report_that_needs_nothing_else(predictor, rows, tmp_path):
    page, record = tmp_path / "audit.html", tmp_path / "audit.json"
    words = ("audit", tmp_path / "model", "--data", rows, "--quick", "--html", page, "--record", record)
    done = run(*words)
    assert done.returncode == 0, done.stderr
    found = json.loads(record.read_text())
    assert found["headline"] == headline_of(found["results"])
    assert found["headline"] in done.stdout
    assert len(found["advice"]) == 3
    assert {row["part"] for row in found["results"]} == {
        "consistency", "position", "worst case", "leakage", "mixture read"
    }  # fmt: skip
    text = page.read_text()
    assert not re.search(r"https?:|src=|@import|url\(", text)
    assert text.count("<svg") == 5
    assert text == as_html({**found, "headline": found["headline"]})


def test_bad_input_is_one_clear_line(predictor, rows, tmp_path):
    model = tmp_path / "model"
    for words, problem in (
        ((model,), "either --task"),
        ((model, "--data", rows, "-k", "1"), "2 or more"),
        ((model, "--data", rows, "-k", "9"), "3 slots"),
        (("sentiment-plain", "--data", rows), "one text per pass"),
    ):
        done = run("audit", *words)
        assert (done.returncode, problem in done.stderr) == (2, True), done.stderr


def test_answers_are_those_of_the_model_itself(predictor, rows, tmp_path):
    subject = load_subject(str(tmp_path / "model"), str(rows))
    groups = torch.tensor([[0, 1, 2], [5, 4, 3]])
    logits = predictor.runtime.logits(subject._batch(groups), 3).view(2, 3, -1)
    (first, second) = subject.ask(groups, torch.tensor([1, 2]))
    torch.testing.assert_close(first[0], logits[0, 1].softmax(-1))
    torch.testing.assert_close(second[0], logits[1, 2].softmax(-1))
    torch.testing.assert_close(subject.represent(groups)[1], logits)


def test_explain_says_how_an_answer_varies(predictor, tmp_path):
    (tmp_path / "others.txt").write_text("bad film\nthe plot was good .\nanna lives in paris\n")
    words = ("explain", tmp_path / "model", "good film", "--neighbours", tmp_path / "others.txt", "--groups", "12")
    found = json.loads(run(*words, "--json").stdout)
    assert [row["group_size"] for row in found] == [1, 2, 3]
    assert found[0]["share"] == 1.0
    assert len(found[2]["slots"]) == 3
    assert len(found[2]["scores"]) + sum(found[2]["others"].values()) == 12
    assert "texts per pass" in run(*words).stdout
    assert run(*words, "-k", "9").returncode == 2


def test_explain_refuses_a_model_that_answers_with_numbers(predictor):
    numbers = copy(predictor)
    numbers.problem = "regression"
    with pytest.raises(ValueError, match="answers with a number"):
        explain_text(numbers, "good film", ["bad film"])


def test_explain_takes_a_pair(predictor, tmp_path):
    """The second text is read: the answer is the one that the model gives for the pair."""
    (tmp_path / "others.txt").write_text("bad film\tgood film\nthe plot\twas good .\n")
    words = ("explain", tmp_path / "model", "good film", "--pair", "the plot was not good .", "-k", "1", "--json")
    (alone,) = json.loads(run(*words).stdout)
    (expected,) = predictor([("good film", "the plot was not good .")], group_size=1)
    (single,) = predictor(["good film"], group_size=1)
    assert alone["scores"] == [pytest.approx(expected["score"], abs=1e-5)]
    assert expected["score"] != pytest.approx(single["score"], abs=1e-5)
    given = ("explain", tmp_path / "model", "good film", "--pair", "the plot", "--neighbours", tmp_path / "others.txt")
    assert [row["group_size"] for row in json.loads(run(*given, "--json").stdout)] == [1, 2, 3]
    (tmp_path / "others.txt").write_text("no tab here\n")
    assert "a tab between them" in run(*given).stderr


def _results(flips=0.0, success=0.0, state=0.5, spread=0.01, upper=None, score=0.9, rows=1000, words=False):
    return [
        {"part": "consistency", "group_size": 2, "flips": 0.0, "upper": 0.003, "texts": 200},
        {"part": "consistency", "group_size": 4, "flips": flips, "upper": upper or flips + 0.005, "texts": 200},
        {"part": "worst case", "group_size": 4, "success": success, "tries": 9, "by_chance": success / 2,
         "changed": round(40 * success), "texts": 40, "words": words},
        {"part": "leakage", "group_size": 4, "chance": 0.5, "error": 0.01, "label_from_state": state,
         "label_from_logits": 0.5, "rows": rows},
        {"part": "position", "group_size": 4, "worst": 0.7, "best": 0.9, "spread": spread, "expected": 0.01},
        {"part": "mixture read", "group_size": 4, "score": score, "from_neighbour": 0.5, "guessing": 0.5},
    ]  # fmt: skip


def test_advice_follows_the_numbers():
    calm = advice_of(_results())
    assert [calm[0].startswith("Use any group size"), "Neither" in calm[1], "Every slot" in calm[2]] == [True] * 3
    bad = advice_of(_results(0.2, 0.4, 0.9, 0.1))
    assert ["Up to 2 texts" in bad[0], "Never" in bad[1], "differ more" in bad[2]] == [True] * 3
    assert "at most 3.0%" in advice_of(_results(upper=0.03))[0], "no flip among few texts is no promise"
    assert "only 40 rows" in advice_of(_results(rows=40))[1]
    assert "too little to say" in advice_of(_results(score=0.51))[2], "a model that guesses shows nothing of its slots"


def test_the_headline_says_of_how_many_and_who_can_read_what():
    headline = headline_of(_results(0.2, 0.4, 0.9))
    for said in ("(16 of 40)", "random ones 20%", "logits in 50.0% of cases", "only the operator sees, in 90.0%"):
        assert said in headline
    assert "texts whose words were all right" in headline_of(_results(words=True))
