"""The paper's figures and claims: every experiment exists, verdicts follow the numbers, a missing record is said."""

from dataclasses import replace
from typing import get_args

import pytest
import torch

from datamux.evaluate.cost_model import H100, RTX_2080, Shape, narrower, throughput
from datamux.reproduce.anchors import COSINE, NEAREST, RATIO, separation
from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.construction import SERIES, construction_record, interference
from datamux.reproduce.paper import rules, text_figures
from datamux.reproduce.paper.claims import CLAIMS
from datamux.reproduce.paper.cost import errors_of, fitted, predicted
from datamux.reproduce.paper.drawing import draw_paper_figure
from datamux.reproduce.paper.figure import COLUMNS, Point, row, score_rows
from datamux.reproduce.paper.figures import PAPER_FIGURES, figure
from datamux.reproduce.paper.pages import PARTS, claims_page, cost_page, figure_lines, part_page
from datamux.reproduce.paper.verdict import Verdict, Word, share

METRIC = text_figures.METRICS["sst2"]


@pytest.mark.parametrize("name", PAPER_FIGURES)
def test_a_figure_is_made_of_experiments_that_can_be_run(name):
    found = figure(name)
    assert found.experiments
    assert all(EXPERIMENTS[e].has_record and not EXPERIMENTS[e].retired for e in found.experiments)
    assert all(tuple(r) == COLUMNS for r in found.rows())
    assert bool(found.rows()) is (found.record != "no")


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_every_claim_has_a_verdict_and_a_reason(claim):
    assert claim.verdict.word in get_args(Word)
    assert claim.verdict.because.endswith(".")
    assert claim.part in PARTS


def test_scores_are_means_over_seeds_with_their_spread():
    records = [{"results": [{"group_size": 5, "score": s}, {"group_size": 2, "score": 0.1}]} for s in (0.7, 0.8)]
    point = Point("a", 5, METRIC, "sst2/scratch-n20", paper=77.0)
    assert score_rows([point], {point.experiment: records}) == [row("a", 5, METRIC, 75.0, pytest.approx(5), 2, 77.0)]
    assert score_rows([Point("a", 3, METRIC, point.experiment)], {point.experiment: records}) == []


def _with_rows(monkeypatch, name, rows):
    monkeypatch.setitem(PAPER_FIGURES, name, replace(PAPER_FIGURES[name], rows=lambda: rows))


def _tasks(plain, paper, metric=METRIC):
    series = [("plain", 1, plain), (text_figures.OUR_PLAIN, 1, plain)]
    series += [(text_figures.PAPER, n, score) for n, score in zip((2, 5, 10), paper, strict=True)]
    return [row(name, n, metric, score) for name, n, score in series]


@pytest.mark.parametrize(
    ("plain", "paper", "word"),
    [
        (70.0, (69.0, 68.0, 67.0), "holds"),
        (70.0, (69.0, 60.0, 50.0), "holds in part"),
        (70.0, (60.0, 60.0, 50.0), "does not hold"),
        (36.0, (34.0, 34.0, 34.0), "cannot be tested here"),
    ],
)
def test_the_verdict_on_a_drop_follows_the_numbers(monkeypatch, plain, paper, word):
    _with_rows(monkeypatch, "tasks", _tasks(plain, paper, text_figures.METRICS["mnli"]))
    assert rules.task_drop("mnli", at_most=4.0).word == word


def test_a_missing_record_is_said(monkeypatch):
    _with_rows(monkeypatch, "tasks", [])
    found = rules.task_drop("mnli", at_most=4.0)
    assert found == Verdict("not run yet", "There is no record of plain at N = 1 (MNLI accuracy).")


def test_throughput_needs_both_numbers(monkeypatch):
    from datamux.reproduce.paper.measured_figures import TIMES

    for found, word in (((12.0, 20.0), "holds"), ((12.0, 15.0), "holds in part"), ((5.0, 9.0), "does not hold")):
        rows = [row("12L/768H, index", n, TIMES, times) for n, times in zip((20, 40), found, strict=True)]
        _with_rows(monkeypatch, "throughput", rows)
        assert rules.throughput().word == word
    assert [share(n, 2) for n in (2, 1, 0)] == ["holds", "holds in part", "does not hold"]


@pytest.mark.parametrize(("apart", "word"), [(9.0, "holds"), (5.0, "does not hold")])
def test_indices_are_judged_beside_chance(monkeypatch, apart, word):
    from datamux.reproduce.paper.measured_figures import BY_CHANCE, SPREAD

    series = "ours, 4L/256H, SST-2"
    rows = [row(series, 2, SPREAD, 1.0), row(series, 20, SPREAD, apart)]
    _with_rows(monkeypatch, "indices", [*rows, row(series, 2, BY_CHANCE, 1.0), row(series, 20, BY_CHANCE, 4.5)])
    assert rules.indices().word == word


def test_the_construction_separates_and_three_things_break_it():
    assert interference(SERIES[0], 4, 16, 0) < 1e-9
    assert all(interference(series, 4, 16, 0) > 0.05 for series in SERIES[1:])
    record = construction_record((2, 4), 16, seeds=2)
    assert [(r["series"], r["n"]) for r in record["rows"]] == [(series, n) for series in SERIES for n in (2, 4)]
    assert all(tuple(r) == COLUMNS for r in record["rows"])


def test_separation_tells_tight_clouds_from_one_cloud():
    generator = torch.Generator().manual_seed(0)
    means, noise = (torch.randn(*shape, generator=generator) for shape in ((4, 1, 8), (4, 6, 8)))
    tight, loose = separation(means + 0.01 * noise), separation(0.01 * means + noise)
    assert tight[NEAREST] == 100.0
    assert loose[NEAREST] < 60
    assert tight[RATIO] < 5 < loose[RATIO]
    assert -1 <= tight[COSINE] <= 1


def test_pages_and_pictures_come_from_the_rows(monkeypatch, tmp_path):
    _with_rows(monkeypatch, "tasks", _tasks(71.23, (70.0, 69.0, 68.0)))
    assert "71.2" in "\n".join(figure_lines(figure("tasks")))
    assert "71.2" in part_page("results")
    page = claims_page()
    assert all(claim.statement in page for claim in CLAIMS)
    draw_paper_figure(figure("tasks"), tmp_path / "tasks.png")
    assert (tmp_path / "tasks.png").stat().st_size > 5000
    _with_rows(monkeypatch, "tasks", [])
    with pytest.raises(FileNotFoundError, match="datamux reproduce tasks"):
        draw_paper_figure(figure("tasks"), tmp_path / "none.png")


def test_the_cost_model_explains_our_records():
    machine, error = fitted()
    assert error < 0.05
    assert max(errors_of(machine)) < 0.35
    assert len(errors_of(machine)) >= 20
    shape = Shape(12, 768, 128)
    assert predicted(shape, 20, machine) == pytest.approx(20, rel=0.1), "mixing costs little beside the encoder"
    assert predicted(replace(shape, prefix=True), 40, machine) < 0.8 * predicted(shape, 40, machine)
    assert "prediction" in cost_page()


def test_length_and_a_fast_gpu_favour_mixing_over_a_narrow_network():
    def advantage(tokens, machine):
        shape = Shape(12, 768, tokens)
        return throughput(shape, 16, machine) / throughput(narrower(shape, 16), 0, machine)

    assert narrower(Shape(12, 768, 128), 16).hidden == 192
    assert advantage(2048, RTX_2080) > advantage(512, RTX_2080) > advantage(128, RTX_2080)
    assert advantage(128, H100) > advantage(128, RTX_2080)
