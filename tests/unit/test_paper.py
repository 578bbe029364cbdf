"""The paper's figures and claims: every experiment exists, verdicts follow the numbers, a missing record is said."""

from dataclasses import replace
from statistics import median
from typing import get_args

import pytest
import torch

from datamux.reproduce.anchors import COSINE, NEAREST, RATIO, separation
from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.construction import SERIES, construction_record, interference
from datamux.reproduce.figures.quality import quality_section
from datamux.reproduce.images import rules as image_rules
from datamux.reproduce.paper import text_figures
from datamux.reproduce.paper.all_figures import PAPER_FIGURES, figure
from datamux.reproduce.paper.claims import CLAIMS
from datamux.reproduce.paper.cost import AGAINST, NARROW, cost_rows, fitted, measured, on_the_papers_gpu, predicted
from datamux.reproduce.paper.cost_model import H100, RTX_2080, Shape, narrower, throughput
from datamux.reproduce.paper.drawing import draw_paper_figure
from datamux.reproduce.paper.figure import COLUMNS, Point, row, score_rows
from datamux.reproduce.paper.measured_figures import BY_CHANCE, INDEXED, SPREAD
from datamux.reproduce.paper.pages import PARTS, claims_page, cost_page, counted, figure_lines, part_page
from datamux.reproduce.paper.rules import analysis, appendix, cost, results
from datamux.reproduce.paper.verdict import NotRun, Verdict, Word, share
from datamux.reproduce.records import recorded_by_name
from datamux.reproduce.spread import spread_of
from paper_rows import METRIC, lines, tasks, with_rows


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
    assert score_rows([point], {point.experiment: records}) == [
        row("a", 5, METRIC, 75.0, pytest.approx(50**0.5), 2, 77.0)
    ]
    assert score_rows([Point("a", 3, METRIC, point.experiment)], {point.experiment: records}) == []


def test_the_tables_of_scores_and_the_papers_figures_have_the_same_spread():
    """The sample's standard deviation: for 70, 71 and 75 it is 2.6, and the population's would be 2.2."""
    (record, *_) = recorded_by_name("sst2/scratch-n20")
    records = [record | {"results": [result | {"score": s} for result in record["results"]]} for s in (0.7, 0.71, 0.75)]
    point = Point("a", 20, METRIC, "sst2/scratch-n20")
    (shown,) = score_rows([point], {point.experiment: records})
    assert round(shown["spread"], 1) == 2.6
    assert "| 72.0 ± 2.6 |" in quality_section("sst2", {"scratch-n20": records})[-1]
    assert spread_of([70.0]) == 0.0


def test_a_figure_counts_the_records_of_every_seed():
    found, needed = figure("seeds").records
    assert needed == 3 * 4 * 3 + 3, "three seeds of four tasks at three sizes, and of our larger model"
    assert figure("seeds").record == ("yes" if found == needed else "in part" if found else "no")


def test_the_verdicts_are_counted_in_a_sentence():
    words = ["holds", "does not hold", "holds", "not run yet"]
    assert counted(words) == "Of 4 claims, 2 hold, 1 does not hold and 1 has not been tested yet."
    assert counted(["holds"]) == "Of 1 claims, 1 holds."


def test_every_claim_is_on_a_page():
    pages = "".join([part_page(part) for part in PARTS if part not in ("images", "cost")] + [cost_page()])
    assert [claim.name for claim in CLAIMS if claim.part != "images" and f"> {claim.statement}" not in pages] == []


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
    with_rows(monkeypatch, "tasks", tasks(plain, paper, text_figures.METRICS["mnli"]))
    assert results.task_drop("mnli", small=2.0, large=4.0).word == word


def test_a_missing_record_is_said(monkeypatch):
    with_rows(monkeypatch, "tasks", [])
    found = results.task_drop("mnli", small=2.0, large=4.0)
    assert found == Verdict("not run yet", "There is no record of plain at N = 1 (MNLI accuracy) at the mini scale.")


def test_throughput_needs_both_numbers(monkeypatch):
    from datamux.reproduce.paper.measured_figures import TIMES

    for found, word in (((12.0, 20.0), "holds"), ((12.0, 15.0), "holds in part"), ((5.0, 9.0), "does not hold")):
        rows = [row("12L/768H, index", n, TIMES, times) for n, times in zip((20, 40), found, strict=True)]
        with_rows(monkeypatch, "throughput", rows)
        assert cost.throughput().word == word
    assert [share(n, 2) for n in (2, 1, 0)] == ["holds", "holds in part", "does not hold"]


@pytest.mark.parametrize(("times", "word"), [(29.5, "holds in part"), (18.5, "does not hold")])
def test_the_drafts_1800_percent_are_19_times_and_never_hold_for_seven_tasks(monkeypatch, times, word):
    from datamux.reproduce.paper.measured_figures import TIMES

    with_rows(monkeypatch, "throughput", [row("12L/768H, index", 40, TIMES, times)])
    found = cost.draft_speed()
    assert found.word == word
    assert "1,800% more is 19x" in found.because
    with_rows(monkeypatch, "throughput", [])
    assert cost.draft_speed().word == "not run yet"


def test_one_n_of_three_is_no_verdict(monkeypatch):
    rows = [row for row in tasks(70.0, (69.0, 68.0, 67.0)) if row["n"] != 5]
    with_rows(monkeypatch, "tasks", rows)
    found = results.task_drop("sst2", small=2.0, large=4.0)
    assert found.word == "not run yet"
    assert "at N = 5 (SST-2 accuracy) at the mini scale" in found.because
    with pytest.raises(NotRun):
        share(0, 0)


@pytest.mark.parametrize(
    ("with_it", "without", "word"),
    [
        ((70.0, 70.0, 70.0), (50.0, 51.0, 52.0), "holds"),
        ((70.0, 70.0, 70.0), (69.0, 69.0, 50.0), "holds in part"),
        ((90.0, 90.0, 90.0), (80.0, 80.0, 80.0), "holds in part"),  # it learns, but less
        ((70.0, 70.0, 70.0), (69.0, 71.0, 70.0), "does not hold"),
        ((50.0, 50.0, 1.0), (50.0, 50.0, 1.0), "cannot be tested here"),
        ((70.0, 50.0, 50.0), (50.0, 50.0, 50.0), "holds in part"),  # only N = 2 says something
        ((50.0, 50.0, 50.0), (70.0, 50.0, 50.0), "does not hold"),  # it is learned without the warm-up alone
    ],
)
def test_the_warm_up_is_judged_in_the_papers_training(monkeypatch, with_it, without, word):
    shared = {text_figures.PAPER: with_it, text_figures.NO_WARMUP: without}
    names = lines(text_figures.METRICS["conll2003"], **shared)
    names = [{**r, "value": max(0.0, r["value"] - 50)} for r in names]  # guessing gives 50% of SST-2, and no name
    with_rows(monkeypatch, "warm-up", lines(METRIC, **shared) + names)
    assert results.warmup_needed().word == word


def test_retrieval_is_judged_by_the_papers_parts_at_every_n(monkeypatch):
    larger = [row(text_figures.LARGER, 20, text_figures.RETRIEVAL, 99.0)]
    paper = dict.fromkeys(text_figures.PAPER_WARMUPS, (99.0, 99.0, 99.0))
    rows = larger + lines(text_figures.RETRIEVAL, **paper, **{"ours, index": (10.0, 10.0, 10.0)})
    with_rows(monkeypatch, "retrieval-accuracy", rows)
    assert results.retrieval().word == "holds", "our own parts are not the paper's"
    with_rows(monkeypatch, "retrieval-accuracy", [r for r in rows if (r["series"], r["n"]) != ("ortho, mlp", 10)])
    assert results.retrieval().word == "not run yet"


@pytest.mark.parametrize(
    ("mlp", "word"),
    [
        (((69.0, 0.2, 3), (66.0, 0.2, 3), (69.0, 9.0, 3)), "holds"),
        (((69.0, 0.2, 3), (66.0, 0.2, 3), (51.0, 0.2, 3)), "holds"),  # guessed at N = 10
        (((69.0, 0.2, 3), (66.0, 0.2, 3), (69.0, 0.2, 3)), "holds in part"),
        (((70.5, 0.2, 3), (71.0, 0.2, 3), (69.0, 0.2, 3)), "does not hold"),
        (((69.0, 0.0, 1), (66.0, 0.2, 3), (69.0, 0.2, 3)), "not run yet"),  # one seed says nothing of stability
    ],
)
def test_mlp_demultiplexing_is_worse_beyond_noise_and_unstable_over_seeds(monkeypatch, mlp, word):
    shared = {"prefix": ((70.0, 0.3, 3),) * 3, "MLP": mlp}
    rows = lines(METRIC, **shared) + lines(text_figures.METRICS["conll2003"], **shared)
    with_rows(monkeypatch, "mlp-demultiplexer", rows)
    assert appendix.mlp_demultiplexer().word == word


def test_the_bound_compares_warm_ups_of_the_same_n(monkeypatch):
    """Retrieval and scores both fall with N here, but no two warm-ups of one N differ: that shows nothing."""
    falling = ((100.0, 80.0, 40.0), (80.0, 70.0, 60.0))
    for figure_name, names in {
        "keys": ("Gaussian", "learned", "binary"),
        "mlp-demultiplexer": ("prefix", "MLP"),
    }.items():
        rows = lines(text_figures.RETRIEVAL, **dict.fromkeys(names, falling[0]))
        for task in ("sst2", "conll2003"):
            rows += lines(text_figures.METRICS[task], **dict.fromkeys(names, falling[1]))
        with_rows(monkeypatch, figure_name, rows)
    assert results.upper_bound().word == "cannot be tested here"
    worse = [{**r, "value": r["value"] - 20} if (r["series"], r["n"]) == ("MLP", 10) else r for r in rows]
    with_rows(monkeypatch, "mlp-demultiplexer", worse)
    assert results.upper_bound().word == "holds"


def test_equal_cost_takes_each_size_from_the_model_that_has_it(monkeypatch):
    points = {(p.series, p.n): p.experiment for p in text_figures._equal_cost_points() if p.metric == METRIC}
    assert points[text_figures.MIXED, 9] == "mini-sst2/ours-n10"
    assert points[text_figures.MIXED, 16] == "mini-sst2/ours-n16"
    for (series, k), name in points.items():
        if series == text_figures.MIXED:
            assert k in EXPERIMENTS[name].group_sizes
    rivals = [EXPERIMENTS[points[text_figures.AS_CHEAP, k]].settings["task.groups"] for k in (4, 9, 16)]
    assert rivals == [128, 128, 256]
    for better, word in ((5.0, "holds"), (0.0, "does not hold")):
        rows = []
        for metric in (METRIC, text_figures.METRICS["conll2003"]):
            rows += [row(text_figures.MIXED, k, metric, 60.0 + better) for k in (4, 9, 16)]
            rows += [row(text_figures.AS_CHEAP, k, metric, 60.0) for k in (4, 9, 16)]
        with_rows(monkeypatch, "equal-cost", rows)
        assert cost.equal_cost().word == word


def test_figures_measure_the_warm_ups_that_their_claims_speak_of():
    assert {f"mini-retrieval/{keys}-index-n10" for keys in ("hadamard", "learned", "binary")} <= set(
        figure("keys").experiments
    )
    assert "mini-retrieval/hadamard-mlp-n10" in figure("mlp-demultiplexer").experiments


def test_larger_models_stand_only_beside_scores_of_the_same_rows():
    larger = {p.experiment.partition("/")[0] for t in text_figures.METRICS for p in text_figures._task_points(t)}
    assert {"sst2", "conll2003"} <= larger
    assert not {"mnli", "qqp", "qnli"} & larger, "their committed records are of older, smaller subsets"


@pytest.mark.parametrize(("apart", "word"), [(9.0, "holds"), (5.0, "does not hold")])
def test_indices_are_judged_beside_chance(monkeypatch, apart, word):
    series = text_figures.INDEXED_PAPER
    far = dict(zip(INDEXED[series], (1.0, 1.0, apart), strict=True))
    rows = [row(series, n, SPREAD, points) for n, points in far.items()]
    rows += [row(series, n, BY_CHANCE, chance) for n, chance in zip(far, (1.0, 1.0, 4.5), strict=True)]
    rows += [row(series, n, METRIC, 70.0) for n in far]
    with_rows(monkeypatch, "indices", rows)
    assert analysis.indices().word == word
    with_rows(monkeypatch, "indices", [r for r in rows if r["n"] != 5])
    assert analysis.indices().word == "not run yet"


def test_anchors_of_our_models_alone_hold_only_in_part(monkeypatch):
    ours = [row("sentiment", 20, COSINE, 0.02), row("sentiment", 20, NEAREST, 99.0)]
    papers = [row("hadamard-index-n10", 10, COSINE, -0.05), row("hadamard-index-n10", 10, NEAREST, 99.0)]
    for rows, word in ((ours, "holds in part"), (ours + papers, "holds")):
        with_rows(monkeypatch, "anchors", rows)
        assert analysis.far_apart().word == word
    with_rows(monkeypatch, "anchors", [*ours, {**papers[0], "value": 0.5}])
    assert analysis.far_apart().word == "holds in part"


@pytest.mark.parametrize(
    ("rule", "changed", "word"),
    [
        (image_rules.wider_maps, {}, "holds"),
        (image_rules.wider_maps, {("nonlinear_4x_as_published", 8): 10.0}, "holds in part"),
        (image_rules.no_drop, {("ortho", 8): 93.0}, "holds in part"),
        (image_rules.identity, {("identity", 4): 26.0, ("identity", 8): 13.0, ("identity", 16): 7.0}, "holds"),
        (image_rules.low_rank, {("low_rank", 8): 70.0}, "does not hold"),
        (image_rules.other_kernels, {("random_kernel", n): 0.0 for n in (8, 16)}, "holds"),
    ],
)
def test_claims_about_images_follow_the_numbers(monkeypatch, rule, changed, word):
    real = image_rules.rows_of

    def rows_of(record):
        return [{**r, "value": changed.get((r["series"], r["n"]), r["value"])} for r in real(record)]

    monkeypatch.setattr(image_rules, "rows_of", rows_of)
    assert rule().word == word


def test_smaller_models_without_the_papers_prefix_hold_only_in_part(monkeypatch):
    from datamux.reproduce.paper.measured_figures import TIMES

    rows = [row("12L/768H, gate", 40, TIMES, 40.0), row("12L/768H, index", 40, TIMES, 30.0)]
    rows += [row(f"{shape}, gate", 20, TIMES, 60.0) for shape in ("12L/384H", "4L/768H")]
    with_rows(monkeypatch, "throughput", rows)
    assert cost.smaller_throughput().word == "holds in part"
    rows += [row(f"{shape}, index", 20, TIMES, 60.0) for shape in ("12L/384H", "4L/768H")]
    with_rows(monkeypatch, "throughput", rows)
    assert cost.smaller_throughput().word == "holds"


def test_the_construction_separates_and_three_things_break_it():
    assert interference(SERIES[0], 4, 16, 0) < 1e-9
    assert all(interference(series, 4, 16, 0) > 0.05 for series in SERIES[1:])
    record = construction_record((2, 4), 16, seeds=2)
    assert [(r["series"], r["n"]) for r in record["rows"]] == [(series, n) for series in SERIES for n in (2, 4)]
    assert all(tuple(r) == COLUMNS for r in record["rows"])


def test_separation_tells_tight_clouds_from_one_cloud():
    generator = torch.Generator().manual_seed(0)
    means, noise = (torch.randn(*shape, generator=generator) for shape in ((4, 1, 8), (4, 6, 8)))
    centre = torch.zeros(8)
    tight, loose = separation(means + 0.01 * noise, centre), separation(0.01 * means + noise, centre)
    assert tight[NEAREST] == 100.0
    assert loose[NEAREST] < 60
    assert tight[RATIO] < 5 < loose[RATIO]
    assert -1 <= tight[COSINE] <= 1
    alike = torch.ones(4, 1, 8) + 0.1 * noise
    assert separation(alike, centre)[COSINE] > 0.9, "texts on the same side of all others are alike"
    assert separation(alike, alike.mean((0, 1)))[COSINE] == pytest.approx(-1 / 3, abs=0.1), "seen from their own mean"


def test_pages_and_pictures_come_from_the_rows(monkeypatch, tmp_path):
    with_rows(monkeypatch, "tasks", tasks(71.23, (70.0, 69.0, 68.0)))
    assert "71.2" in "\n".join(figure_lines(figure("tasks")))
    assert "71.2" in part_page("results")
    with_rows(monkeypatch, "anchors", [row("a", 20, COSINE, -0.0587), row("b", 20, COSINE, 3e-14)])
    assert "| a | -0.06 |" in part_page("analysis"), "a small number keeps its digits"
    assert "| b | 3.0e-14 |" in part_page("analysis")
    page = claims_page()
    assert all(claim.statement in page for claim in CLAIMS)
    draw_paper_figure(figure("tasks"), tmp_path / "tasks.png")
    assert (tmp_path / "tasks.png").stat().st_size > 5000
    with_rows(monkeypatch, "tasks", [])
    with pytest.raises(FileNotFoundError, match="datamux reproduce tasks"):
        draw_paper_figure(figure("tasks"), tmp_path / "none.png")


def test_every_table_of_trained_models_says_how_many_seeds_its_numbers_have(monkeypatch):
    def table(*scores):
        with_rows(monkeypatch, "tasks", lines(METRIC, a=scores))
        return figure_lines(figure("tasks"))[2:]

    one, three = (70.0, 0.0, 1), (71.0, 0.52, 3)
    assert table(one, one, one) == ["| a | 70.0 | 70.0 | 70.0 |", "", "Every number is of one seed."]
    means = "Numbers are means over 3 seeds, with the sample's standard deviation after ±"
    assert table(three, three, three) == ["| a | 71.0 ± 0.5 | 71.0 ± 0.5 | 71.0 ± 0.5 |", "", f"{means}."]
    some = [
        "| a | 70.0 (1 seed) | 71.0 ± 0.5 | 71.0 ± 0.5 |",
        "",
        f"{means}, but for cells that say how many they have.",
    ]
    assert table(one, three, three) == some
    assert "seed" not in "\n".join(figure_lines(figure("memory-overhead"))), "it has no seeds, but rounds"


def test_the_page_of_claims_says_how_many_experiments_have_one_seed():
    single = [e for e in EXPERIMENTS.values() if e.family == "mini" and e.seeds == (0,)]
    mini = [e for e in EXPERIMENTS.values() if e.family == "mini" and e.kind == "train"]
    assert f"Of the {len(mini)} experiments at the mini scale, {len(single)} have one seed" in claims_page()


def test_the_cost_model_explains_mixing_in_our_records():
    machine, (least, most) = fitted()
    errors = [abs(m.error(machine)) for m in measured() if m.k]
    assert len(errors) >= 20
    assert median(errors) < 0.05
    assert max(errors) < 0.35
    assert least < most, "the records do not identify the balance, and the page says so"
    shape = Shape(12, 768, 128)
    assert predicted(shape, 20, machine) == pytest.approx(20, rel=0.1), "mixing costs little beside the encoder"
    assert predicted(replace(shape, prefix=True), 40, machine) < 0.8 * predicted(shape, 40, machine)


def test_the_error_of_the_cost_model_is_told_for_other_widths_and_for_the_papers_gpu():
    machine, _ = fitted()
    errors = {m.shape.hidden: m.error(machine) for m in measured(["4l-256h-32-tokens"]) if not m.k}
    assert set(errors) == {128, 64}, "the plain models of other sizes are checked, too"
    page = cost_page()
    assert "prediction" in page
    assert f"{errors[64]:+.0%} for 4l-256h-32-tokens, plain 1x64" in page
    assert any(row["metric"] == NARROW and row["n"] == 64 for row in cost_rows())
    said, stated = on_the_papers_gpu()["12L/768H at N = 40"]
    assert stated == 18
    assert f"{said:.0f}x for 12L/768H at N = 40 (18x)" in page


def test_the_page_of_cost_opens_with_what_mixing_gains_over_its_rival(monkeypatch):
    assert "This is a prediction: nothing was measured on GPUs." in cost_page().split("![")[0]
    rows = [
        row(f"{tokens} tokens, measured", 16, AGAINST, times) for tokens, times in ((128, 1.1), (512, 1.5), (2048, 3.2))
    ]
    with_rows(monkeypatch, "cost-model", rows)
    assert "1.1 times at 128 tokens, 1.5 times at 512 tokens, 3.2 times at 2,048 tokens." in cost_page().split("![")[0]


def test_length_and_a_fast_gpu_favour_mixing_over_a_narrow_network():
    def advantage(tokens, machine):
        shape = Shape(12, 768, tokens)
        return throughput(shape, 16, machine) / throughput(narrower(shape, 16), 0, machine)

    assert narrower(Shape(12, 768, 128), 16).hidden == 192
    assert advantage(2048, RTX_2080) > advantage(512, RTX_2080) > advantage(128, RTX_2080)
    assert advantage(128, H100) > advantage(128, RTX_2080)
