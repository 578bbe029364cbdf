"""Claims of the paper where models only guess: what nobody learned is not compared, and the verdict says so."""

import pytest

from datamux.reproduce.catalogue.mini import ABLATED, EQUAL_COST, SIZES
from datamux.reproduce.paper import text_figures as text
from datamux.reproduce.paper.all_figures import figure
from datamux.reproduce.paper.figure import row
from datamux.reproduce.paper.measured_figures import BY_CHANCE, SPREAD
from datamux.reproduce.paper.rules import analysis, appendix, cost, results
from datamux.reproduce.paper.rules.reading import GUESSING, NOTHING_LEARNED
from datamux.reproduce.paper.verdict import Verdict
from paper_rows import METRIC, lines, tasks, with_rows

NAMES = text.METRICS["conll2003"]
PAIRS = ("sst2", "conll2003", "qqp")
# A rule -> its figure, the series that is compared with others, these, the tasks, N, and how much better these are.
TWO_SIDES = {
    results.ortho_or_hadamard: ("tasks", text.ORTHO, (text.PAPER,), PAIRS, SIZES, 0),
    results.published_code: ("tasks", text.PAPER, (text.PUBLISHED,), (*PAIRS, "mnli"), SIZES, 0),
    analysis.smaller_models: ("smaller-models", "3L/120H", ("3L/60H", "1L/120H"), ABLATED, SIZES, 0),
    appendix.learned_keys: ("keys", "learned", ("Gaussian",), ABLATED, SIZES, 0),
    cost.equal_cost: ("equal-cost", text.AS_CHEAP, (text.MIXED,), ABLATED, tuple(EQUAL_COST), 5),
}


@pytest.mark.parametrize("rule", TWO_SIDES, ids=lambda rule: rule.__name__)
def test_where_both_sides_guess_there_is_nothing_to_compare(monkeypatch, rule):
    name, base, others, compared_tasks, sizes, better = TWO_SIDES[rule]

    def verdict(learned):
        """With scores far above guessing at the points (task, N) of `learned`, and with guesses elsewhere."""
        rows = []
        for task in compared_tasks:
            for n in sizes:
                first = GUESSING[task] + (20 if (task, n) in learned else 1)
                second = first + (better if (task, n) in learned else 0)
                rows.append(row(base, n, text.METRICS[task], first))
                rows += [row(other, n, text.METRICS[task], second) for other in others]
        with_rows(monkeypatch, name, rows)
        return rule()

    everywhere = {(task, n) for task in compared_tasks for n in sizes}
    assert verdict(everywhere).word == "holds"
    assert verdict(set()) == Verdict("cannot be tested here", NOTHING_LEARNED)
    least = verdict({("sst2", sizes[0])})
    assert least.word == "holds in part"
    assert least.because.endswith(f"only where something was learned: {METRIC}: N = {sizes[0]}.")
    assert verdict(everywhere - {("conll2003", sizes[-1])}).word == "holds in part", "not all N were tested"


def test_a_task_that_one_side_alone_has_learned_is_compared(monkeypatch):
    rows = lines(METRIC, learned=(50.0, 50.0, 50.0), Gaussian=(70.0, 50.0, 50.0))
    rows += lines(NAMES, learned=(30.0, 1.0, 1.0), Gaussian=(1.0, 1.0, 1.0))
    with_rows(monkeypatch, "keys", rows)
    found = appendix.learned_keys()
    assert found.word == "holds in part"
    assert f"{METRIC}: +20.0 at N = 2; {NAMES}: -29.0 at N = 2." in found.because


def test_heads_that_only_retrieve_words_alike_hold_only_in_part(monkeypatch):
    series = ("six heads", "two heads")
    retrieved = lines(text.RETRIEVAL, **dict.fromkeys(series, (99.0, 98.0, 97.0)))
    for score, word in ((0.0, "holds in part"), (80.0, "holds")):
        learned = [line for metric in (METRIC, NAMES) for line in lines(metric, **dict.fromkeys(series, (score,) * 3))]
        with_rows(monkeypatch, "heads", retrieved + learned)
        found = analysis.heads()
        assert found.word == word
        only = "only where something was learned: retrieval accuracy: N = 2, N = 5, N = 10."
        assert found.because.endswith(only) is (word == "holds in part")


@pytest.mark.parametrize(
    ("full", "small", "word"),
    [
        ((70.0, 70.0), (69.0, 69.0), "holds"),
        ((70.0, 70.0), (50.0, 69.0), "holds in part"),
        ((50.0, 0.0), (50.0, 0.0), "cannot be tested here"),
        ((70.0, 0.0), (69.0, 0.0), "holds in part"),
    ],
)
def test_sizes_of_plain_models_are_compared_where_one_of_them_learns(monkeypatch, full, small, word):
    rows = []
    for metric, much, little in zip((METRIC, NAMES), full, small, strict=True):
        rows += [row("3 layers, width", width, metric, score) for width, score in ((120, much), (60, little))]
        rows += [row("width 120, layers", layers, metric, score) for layers, score in ((3, much), (1, little))]
    with_rows(monkeypatch, "sizes", rows)
    assert appendix.sizes().word == word


@pytest.mark.parametrize(
    ("scores", "word"),
    [
        (((70.0, 0.3, 3), (70.0, 0.5, 3), (70.0, 0.2, 3)), "holds"),
        (((70.0, 0.3, 3), (50.5, 0.1, 3), (50.3, 0.1, 3)), "holds in part"),
        (((50.5, 0.3, 3), (50.5, 0.1, 3), (50.3, 0.1, 3)), "cannot be tested here"),
        (((54.0, 7.0, 3), (50.5, 0.1, 3), (50.3, 0.1, 3)), "does not hold"),  # one seed learned it, two did not
        (((70.0, 0.0, 1), (70.0, 0.0, 1), (70.0, 0.0, 1)), "not run yet"),
    ],
)
def test_seeds_that_all_guess_say_nothing(monkeypatch, scores, word):
    with_rows(monkeypatch, "seeds", lines(METRIC, **{text.PAPER: scores}))
    assert appendix.seeds().word == word


def test_mlp_demultiplexing_is_not_judged_where_both_guess(monkeypatch):
    guessed = lines(NAMES, prefix=((0.0, 0.0, 3),) * 3, MLP=((0.0, 0.0, 3),) * 3)
    for prefix, mlp, word in (((50.5, 0.2, 3), (50.4, 0.2, 3), "cannot"), ((70.0, 0.2, 3), (60.0, 9.0, 3), "in part")):
        rest = ((50.4, 0.2, 3), (50.3, 0.2, 3))
        with_rows(monkeypatch, "mlp-demultiplexer", guessed + lines(METRIC, prefix=(prefix, *rest), MLP=(mlp, *rest)))
        assert word in appendix.mlp_demultiplexer().word


def test_small_n_on_two_tasks_of_three_holds_only_in_part(monkeypatch):
    for guessed, word in (((), "holds"), (("qqp",), "holds in part"), (PAIRS, "cannot be tested here")):
        rows = []
        for task in PAIRS:
            plain = GUESSING[task] + (0 if task in guessed else 20)
            rows += tasks(plain, (plain + 4, plain + 4, plain), text.METRICS[task])
        with_rows(monkeypatch, "tasks", rows)
        assert results.small_n().word == word


@pytest.mark.parametrize(
    ("guessed", "word"),
    [((), "holds"), ((METRIC,), "holds in part"), ((METRIC, NAMES), "cannot be tested here")],
)
def test_the_bound_is_not_tried_on_a_task_that_nobody_learned(monkeypatch, guessed, word):
    for name, series in {"keys": ("Gaussian", "learned", "binary"), "mlp-demultiplexer": ("prefix", "MLP")}.items():
        retrieved = dict.fromkeys(series, (99.0, 99.0, 99.0)) | {series[-1]: (99.0, 99.0, 50.0)}
        scored = dict.fromkeys(series, (80.0, 80.0, 80.0)) | {series[-1]: (80.0, 80.0, 60.0)}
        rows = lines(text.RETRIEVAL, **retrieved)
        for metric in (METRIC, NAMES):
            guesses = dict.fromkeys(series, (0.0, 0.0, 0.0))
            rows += lines(metric, **(guesses if metric in guessed else scored))
        with_rows(monkeypatch, name, rows)
    found = results.upper_bound()
    assert found.word == word
    assert found.because.endswith(f"learned: {NAMES}: N = 10.") is (word == "holds in part")


@pytest.mark.parametrize(
    ("scores", "word", "because"),
    [
        ((50.0, 50.0, 50.0), "cannot be tested here", NOTHING_LEARNED),
        ((70.0, 50.0, 50.0), "cannot be tested here", "it is learned at fewer than two N"),
        ((70.0, 70.0, 50.0), "holds in part", f"only where something was learned: {text.INDEXED_PAPER}: N = 2, N = 5."),
        ((70.0, 70.0, 70.0), "holds", "20.0 at N = 10"),
    ],
)
def test_indices_of_a_model_that_guesses_say_nothing(monkeypatch, scores, word, because):
    series = text.INDEXED_PAPER
    rows = lines(SPREAD, **{series: (1.0, 10.0, 20.0)}) + lines(BY_CHANCE, **{series: (1.0, 1.0, 1.0)})
    with_rows(monkeypatch, "indices", rows + lines(METRIC, **{series: scores}))
    found = analysis.indices()
    assert found.word == word
    assert because in found.because


def test_the_figure_of_indices_has_the_scores_that_its_verdict_asks_for():
    rows = figure("indices").rows()
    apart = {(r["series"], r["n"]) for r in rows if r["metric"] == SPREAD}
    assert apart == {(r["series"], r["n"]) for r in rows if r["metric"] in text.METRICS.values()} != set()
    (shown,) = (r for r in rows if (r["series"], r["n"], r["metric"]) == ("ours, 4L/256H, SST-2", 20, METRIC))
    (same,) = (r for r in figure("tasks").rows() if (r["series"], r["n"], r["metric"]) == (text.LARGER, 20, METRIC))
    assert (shown["value"], shown["seeds"]) == (same["value"], same["seeds"])
