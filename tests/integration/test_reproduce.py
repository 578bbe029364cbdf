"""`datamux reproduce`: image networks learn, interrupted work continues, and all experiments are listed and shown."""

import json
import os
import re
import shutil
from dataclasses import replace
from typing import get_args

import pytest
import torch

from command_line import run as datamux
from command_line import succeed
from datamux.evaluate.records import read_record, write_record
from datamux.multiplexers import IMAGE_MULTIPLEXERS
from datamux.reproduce import records as stored
from datamux.reproduce.catalogue import EXPERIMENTS, FIGURES, choose, get_experiment
from datamux.reproduce.experiment import narrowed
from datamux.reproduce.figures import DERIVED, draw
from datamux.reproduce.images import runs as image_runs
from datamux.reproduce.images.measurements import measure, pca_record, picture_record, speed_record, variance_shares
from datamux.reproduce.images.rows import COLUMNS, RATE, RATIO, rows_of
from datamux.reproduce.paper.all_figures import PAPER_FIGURES
from datamux.reproduce.paper.claims import CLAIMS
from datamux.reproduce.paper.image_figures import IMAGE_FIGURES
from datamux.reproduce.paper.verdict import Word
from datamux.reproduce.records import has_record
from datamux.reproduce.runner import described
from datamux.vision.digits import Images, from_scikit_learn, load_mnist
from datamux.vision.networks import ImageNetwork
from datamux.vision.training import Protocol, accuracy_by_slot, train_on_images

QUICK = Protocol(loss="cross_entropy", optimiser="adamw", rate=4e-3, schedule="cosine", steps=250, epochs=1)
LINEAR = ("ortho", "learned_ortho", "low_rank")
UNSEPARATED = 0.55  # right answers where both digits are known but not which is which


@pytest.fixture(scope="module")
def digits() -> Images:
    return from_scikit_learn()


def learned(network: ImageNetwork, digits: Images, protocol: Protocol = QUICK) -> list[float]:
    torch.set_num_threads(1)
    model = network.build(2)
    train_on_images(model, digits, protocol)
    return accuracy_by_slot(model, digits)


@pytest.mark.parametrize("name", [*LINEAR, *IMAGE_MULTIPLEXERS])
def test_every_multiplexer_learns(name, digits):
    backbone = "cnn" if name in IMAGE_MULTIPLEXERS else "mlp"
    slots = learned(ImageNetwork(backbone, name, tanh_readout=False), digits)
    assert len(slots) == 2
    if name == "mosaic_as_published":  # which drops the second image
        assert slots[0] > 0.6
        assert slots[1] < 0.25
    elif name.endswith("kernel"):  # a small one separates little, as the paper found, but it does
        assert sum(slots) / 2 > UNSEPARATED + 0.05
    else:
        assert min(slots) > 0.6


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_without_a_multiplexer_order_is_lost(backbone, digits):
    slots = learned(ImageNetwork(backbone, "identity", tanh_readout=False), digits)
    assert sum(slots) / 2 < UNSEPARATED + 0.03


def test_the_papers_own_protocol_learns(digits):
    slots = learned(ImageNetwork("mlp", "ortho"), digits, Protocol(steps=800, epochs=1))
    assert min(slots) > 0.75


@pytest.mark.slow
def test_the_papers_own_protocol_learns_with_the_cnn(digits):
    """It stands still for thousands of steps at first."""
    slots = learned(ImageNetwork("cnn", "ortho"), digits, Protocol(steps=7000, epochs=1))
    assert min(slots) > 0.8


def test_a_run_is_stored_and_not_repeated(tmp_path, digits, monkeypatch):
    trained = []
    original = image_runs.train_on_images

    def train(model, data, protocol, **options):
        trained.append((model.num_instances, options["seed"]))
        if len(trained) == 4:
            raise KeyboardInterrupt
        original(model, data, replace(protocol, steps=3), **options)

    monkeypatch.setattr(image_runs, "train_on_images", train)
    options = {"seeds": 3, "epochs": 1, "sizes": [1, 2], "series": ["ortho"]}
    mlp = get_experiment("mnist-mlp")
    with pytest.raises(KeyboardInterrupt):
        measure(narrowed(mlp, **options), digits, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    seen = []
    told = {"open_progress": lambda total, done: seen.append(done / total) or seen.append}
    record = measure(narrowed(mlp, **options), digits, tmp_path, **told)
    assert trained == [(2, 0), (2, 1), (2, 2), (1, 0), (1, 0), (1, 1), (1, 2)], "long runs first, the fourth twice"
    assert 0.5 < seen[0] < 0.7, "what was finished counts as done"
    assert [(r["series"], r["n"], r["seed"]) for r in record["results"]] == [
        ("ortho", n, seed) for n in (1, 2) for seed in range(3)
    ]
    again = measure(narrowed(mlp, **options), digits, tmp_path)
    assert len(trained) == 7
    assert again["results"] == record["results"]
    measure(narrowed(mlp, **options | {"epochs": 2, "seeds": 1, "sizes": [1]}), digits, tmp_path)
    assert len(trained) == 8, "other settings are another run"


def test_runs_at_once_give_what_runs_in_turn_give(tmp_path, digits):
    ortho = replace(get_experiment("mnist-mlp").series[1], protocol=Protocol(steps=30, epochs=1))
    work = [image_runs.Run(ortho, n, 0) for n in (1, 2)]
    told = []
    for folder, jobs in (("one", 1), ("two", 2)):
        image_runs.perform_all(
            work,
            tmp_path / folder,
            digits,
            jobs=jobs,
            progress=told.append if jobs == 2 else lambda c: None,
        )
    assert sum(told) == pytest.approx(sum(run.cost for run in work))
    for run in work:
        one, two = (image_runs.finished(run, tmp_path / folder, digits) for folder in ("one", "two"))
        assert one["result"]["slots"] == two["result"]["slots"]
        assert one["made_by"]["commit"] == two["made_by"]["commit"]


def test_rows_are_means_over_seeds_and_spreads_over_indices():
    results = [
        {"series": "ortho", "n": 8, "seed": seed, "accuracy": sum(slots) / 2, "slots": slots, "seconds": 1.0}
        for seed, slots in enumerate(([0.8, 0.6], [0.9, 0.9]))
    ]
    data = {"source": "MNIST", "train": 60_000, "test": 10_000}
    assert rows_of({"kind": "images", "experiment": "mnist/mnist-mlp", "data": data, "results": results}) == [
        {"series": "ortho", "n": 8, "metric": "accuracy, %", "value": 80.0, "spread": 5.0, "seeds": 2, "paper": 78.0}
    ]


def test_a_picture_is_drawn_again_from_its_record(tmp_path, digits):
    quick = replace(QUICK, steps=60)
    experiment = get_experiment("mnist-picture")
    both = [replace(series, sizes=(3,), protocol=quick) for series in experiment.series]
    write_record(described(experiment, 0, picture_record(both, digits)), tmp_path / "record.json")
    record = read_record(tmp_path / "record.json")
    first = record["results"][1]
    assert first["labels"] == digits.test_labels[3:6].tolist()
    torch.testing.assert_close(torch.tensor(first["digits"]) / 255, digits.test_images[3:6], atol=3e-3, rtol=0)
    assert [seen["series"] for seen in first["seen"]] == [series.name for series in both]
    mixture = both[0].network.build(3).multiplexer(digits.test_images[3:6][None])[0]  # it learns nothing
    torch.testing.assert_close(torch.tensor(first["seen"][0]["mixture"]) / 100, mixture, atol=6e-3, rtol=0)
    draw(record, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert [row["n"] for row in rows_of(record)] == [3, 3]


@pytest.mark.slow
def test_speed_is_measured_against_the_plain_network(tmp_path, digits):
    experiment = get_experiment("mnist-speed")
    record = described(experiment, 0, speed_record(digits, rounds=2, count=32, seconds=0.001))
    rows = {(row["series"], row["n"], row["metric"]): row["value"] for row in rows_of(record)}
    assert [rows[f"{figure}: identity", 1, RATIO] for figure in ("mnist-mlp", "mnist-cnn")] == [1.0, 1.0]
    assert {n for _, n, _ in rows} == {1, 2, 4, 8, 16}
    assert {metric for *_, metric in rows} == {RATE, RATIO}, "these are not the digits of the committed records"
    for result in record["results"]:
        assert len(result["rates"]) == 2
        assert min(result["rates"]) > 0
    draw(record, tmp_path / "speed.png")


def test_a_figure_on_other_digits_says_which(tmp_path, monkeypatch):
    monkeypatch.delenv("DATAMUX_DATA", raising=False)
    used = load_mnist().held_out()  # from wherever they are found here
    options = ["--series", "ortho", "-n", "1", "--seeds", "1", "--epochs", "1", "--held-out", "-o", str(tmp_path)]
    done = datamux("reproduce", "mnist-mlp", *options, "--plot", str(tmp_path / "plot.png"))
    assert done.returncode == 0, done.stderr
    assert f"data: {used}" in done.stderr
    assert "held out of training" in done.stdout.splitlines()[0]
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    record = read_record(tmp_path / "held-out/records/mnist/mnist-mlp.json")
    assert record["data"] == used.about()
    (row,) = rows_of(record)
    assert (row["paper"], row["seeds"]) == (None, 1)
    assert row["value"] > 80, "it learned"


def test_the_list_names_every_figure_and_experiment():
    rows = json.loads(succeed("reproduce", "--list", "--json"))
    by_entry = {entry: [row["name"] for row in rows if row["entry"] == entry] for entry in ("figure", "claim")}
    assert by_entry == {"figure": [*PAPER_FIGURES, *IMAGE_FIGURES], "claim": [claim.name for claim in CLAIMS]}
    assert [row["name"] for row in rows if row["entry"] == "experiment"] == list(EXPERIMENTS)
    assert {row["holds"] for row in rows if row["entry"] == "claim"} <= set(get_args(Word))
    assert all(row["record"] in ("yes", "in part", "no", "retired") for row in rows)
    assert all(row["records"] <= row["records_needed"] for row in rows if row["entry"] == "figure")
    (cnn,) = (row for row in rows if row["name"] == "mnist/mnist-cnn")
    assert {"cnn", "nonlinear"} <= set(cnn["holds"]), "an image experiment says which claims it shows"
    shown = [line.split()[0] for line in succeed("reproduce", "--list").splitlines() if line.strip()]
    assert {*PAPER_FIGURES, *IMAGE_FIGURES, *FIGURES, *(claim.name for claim in CLAIMS)} <= set(shown)
    listed = succeed("reproduce", "--list", "mnist")
    assert all(experiment.id in listed for experiment in choose("mnist"))


def test_the_list_has_the_papers_image_figures_with_their_records():
    listed = json.loads(succeed("reproduce", "--list", "--json"))
    rows = {row["name"]: row for row in listed if row["entry"] == "figure"}
    shown_by_claims = {claim.figure for claim in CLAIMS if claim.part == "images"}
    assert set(IMAGE_FIGURES) == shown_by_claims
    for name, found in IMAGE_FIGURES.items():
        assert (rows[name]["record"], rows[name]["records"]) == ("yes", 1)
        assert {claim.name for claim in CLAIMS if claim.figure == name} == set(rows[name]["holds"])
        assert {tuple(row) for row in found.rows()} == {COLUMNS}


def test_some_seeds_of_several_are_a_record_in_part(tmp_path, monkeypatch):
    experiment, committed = get_experiment("sst2/scratch-n20"), stored.RESULTS
    monkeypatch.setattr(stored, "RESULTS", tmp_path)

    def state():
        (listed,) = json.loads(succeed("reproduce", "--list", experiment.id, "--json"))
        (row,) = [line for line in succeed("reproduce", "--list").splitlines() if line.startswith("sst2 ")]
        return listed["record"], "0 of " in row, "1 of " in row, "1 in part" in row

    assert state() == ("no", True, False, False), "without records the list is still printed"
    seen = []
    for seed in experiment.recorded_seeds:
        (tmp_path / experiment.file_name(seed)).parent.mkdir(exist_ok=True)
        shutil.copy(committed / experiment.file_name(seed), tmp_path / experiment.file_name(seed))
        seen.append(state())
    assert seen == [("in part", True, False, True), ("in part", True, False, True), ("yes", False, True, False)]


@pytest.mark.parametrize("name", [experiment.name for experiment in choose("mnist")])
def test_committed_image_results_are_shown_as_rows(name):
    rows = json.loads(succeed("reproduce", name, "--show", "--json"))
    assert rows
    for row in rows:
        assert tuple(row) == COLUMNS
        assert isinstance(row["value"], float)
        assert row["n"] >= 1
        assert row["seeds"] >= 1


WITH_RECORD = [figure for figure in FIGURES if any(has_record(e.id) for e in choose(figure))]


@pytest.mark.parametrize("figure", [*WITH_RECORD, "growth", "quality-aims", *PAPER_FIGURES])
def test_every_figure_is_shown(figure):
    if figure in PAPER_FIGURES and PAPER_FIGURES[figure].record == "no":
        assert "run it with" in datamux("reproduce", figure, "--show").stderr
        return
    shown = succeed("reproduce", figure, "--show")
    assert "|---" in shown
    assert "![" not in shown, "pictures are for the documentation"


@pytest.mark.parametrize("figure", WITH_RECORD)
def test_the_records_of_every_figure_are_shown_as_json(figure):
    rows = json.loads(succeed("reproduce", figure, "--show", "--json"))
    assert rows
    assert all(isinstance(row, dict) for row in rows)


@pytest.mark.parametrize("name", DERIVED)
def test_tables_of_several_figures_are_shown_as_json(name):
    """With the numbers of the table, which has one line per row."""
    rows = json.loads(succeed("reproduce", name, "--show", "--json"))
    _, *lines = [line for line in succeed("reproduce", name, "--show").splitlines() if line.startswith("| ")]
    assert len(rows) == len(lines) > 0
    for row, line in zip(rows, lines, strict=True):
        assert row["model"] in line
        numbers = [row["measured"]] if "measured" in row else [p["minute"] for p in row["reached"]]
        assert all(re.search(rf"\b{number:.1f}|\b{number:.2f}", line) for number in map(abs, numbers))


def test_the_growth_of_a_warm_up_is_told_by_size():
    rows = {row["model"]: row for row in json.loads(succeed("reproduce", "growth", "--show", "--json"))}
    row = rows["scratch-n20"]
    sizes = [point["size"] for point in row["reached"]]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 20
    assert row["held_out"]["step"] > 0
    assert 0.5 < row["power"] < 2
    assert any(row["power"] is None and row["reached"] == [] for row in rows.values()), "one continues another"


def test_one_experiment_is_shown_by_its_name():
    shown = succeed("reproduce", "sst2/scratch-n20", "--show")
    (row,) = [line for line in shown.splitlines() if line.startswith("| scratch")]
    assert row.startswith("| scratch-n20 | 3 | ")
    rows = json.loads(succeed("reproduce", "sst2/scratch-n20", "--show", "--json"))
    assert {(row["experiment"], row["seeds"], row["metric"]) for row in rows} == {("sst2/scratch-n20", 3, "accuracy")}
    assert [row["n"] for row in rows] == [1, 2, 5, 10, 20]


def test_what_would_run_is_said_in_order(tmp_path):
    lines = succeed("reproduce", "sst2/scratch-n20", "--dry-run", "--seeds", "1", "-o", tmp_path).splitlines()
    commands = [line.split()[1:4] for line in lines]
    assert [words[1:] for words in commands] == [
        ["train", "small/warmup-n40"],
        ["train", "small/warmup-n20"],
        ["train", "small/sst2-plain"],
        ["train", "small/sst2-n20"],
        ["evaluate", str(tmp_path / "models/sst2/scratch-n20/seed0/task/model")],
    ]
    assert not list(tmp_path.iterdir())
    images = succeed("reproduce", "mnist", "--dry-run", "-o", tmp_path)
    assert "1. mnist/mnist-mlp: 45 runs of identity, ortho, low_rank" in images
    assert succeed("reproduce", "mnist", "--dry-run", "--missing").startswith("nothing is left to run")


def test_bad_input_is_one_line():
    wrong = {
        ("mnist-mpl",): "Did you mean 'mnist-mlp'?",
        ("sst2/scratch-n2",): "Did you mean 'sst2/scratch-n20'?",
        ("scratch-n20",): "choose retrieval/scratch-n20, sst2/scratch-n20",
        ("mnist-mlp", "--series", "othro", "-o", os.devnull): "'ortho'",
        ("mnist-mlp", "--data-dir", "/nowhere"): "/nowhere",
        (): "--list` lists the figures",
        ("texts", "--show"): "no record is committed of texts",
        ("sst2/scratch-n20-bypass",): "its code was removed",
        ("quality-aims",): "--show",
        ("mnist", "--show", "--plot", "plot.png"): "7 such are named",
    }
    for arguments, message in wrong.items():
        done = datamux("reproduce", *arguments)
        assert done.returncode == 2, arguments
        assert done.stderr.strip().splitlines()[-1].startswith("datamux: ")
        assert message in done.stderr
    assert not has_record("qqp/distilled-n20")
    assert "run it with" in datamux("reproduce", "qqp/distilled-n20", "--show").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "mnist-pca --show --series centred",
            "--series does not apply to mnist-pca --show, which takes --plot, --json",
        ),
        ("mnist-pca --show --held-out", "--held-out does not apply to mnist-pca --show"),
        ("mnist-pca --epochs 1", "--epochs does not apply to mnist-pca, which takes --data-dir, --out"),
        ("mnist-speed -n 2", "-n does not apply to mnist-speed"),
        ("mnist-picture --seeds 2", "--seeds does not apply to mnist-picture"),
        ("mnist-picture -n 2 -n 4", "mnist-picture shows one group size"),
        ("mnist-mlp --show --seeds 3", "--seeds does not apply to mnist-mlp --show, which takes --series, -n"),
        ("sst2 --jobs 2", "--jobs does not apply to sst2, which takes --seeds, --encoder"),
        ("mnist-mlp --encoder x", "--encoder does not apply to mnist-mlp"),
    ],
)
def test_an_option_that_does_not_apply_is_named(arguments, message):
    done = datamux("reproduce", *arguments.split())
    assert done.returncode == 2
    assert message in done.stderr


def test_some_rows_of_the_committed_results_are_shown():
    options = ["--show", "--json", "--series", "ortho", "-n", "8", "-n", "8"]
    (row,) = json.loads(succeed("reproduce", "mnist-mlp", *options))
    assert (row["series"], row["n"], row["paper"]) == ("ortho", 8, 78.0)


def test_the_published_variance_is_about_the_wrong_mean():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(50, 400, generator=generator)
    pixel = images.double() - images.double().mean(0)
    values = torch.linalg.svdvals(pixel) ** 2
    torch.testing.assert_close(variance_shares(images, published=False)[6], values[:7].sum() / values.sum())
    image = images.double() - images.double().mean(1, keepdim=True)
    values = torch.linalg.svdvals(image) ** 2
    torch.testing.assert_close(variance_shares(images, published=True)[6], values[:7].sum() / values.sum())


@pytest.mark.data
def test_the_papers_variance():
    record = described(get_experiment("mnist-pca"), 0, pca_record(load_mnist()))
    rows = {row["series"]: row for row in rows_of(record)}
    assert round(rows["as_published"]["value"], 2) == 86.54 == rows["as_published"]["paper"]
    assert round(rows["centred"]["value"], 2) == 84.44
