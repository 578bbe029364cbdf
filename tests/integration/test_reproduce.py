"""The paper's MNIST figures on real digits: every multiplexer learns, runs go on, records are shown as rows."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from datamux.evaluate.records import read_record, write_record
from datamux.multiplexers import IMAGE_MULTIPLEXERS
from datamux.native.layer import switch
from datamux.reproduce import runs as runs_module
from datamux.reproduce.committed import has_record
from datamux.reproduce.figures import FIGURES, get_figure
from datamux.reproduce.pca import pca_record, variance_shares
from datamux.reproduce.picture import picture_record
from datamux.reproduce.plots import draw_figure
from datamux.reproduce.run import run_figure
from datamux.reproduce.speed import RATE, RATIO, speed_record
from datamux.reproduce.table import COLUMNS, rows_of
from datamux.tasks.images import Images, from_scikit_learn, load_mnist
from datamux.train.image_networks import ImageNetwork
from datamux.train.images import Protocol, accuracy_by_slot, train_on_images

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


@pytest.mark.compiled
def test_the_papers_own_protocol_learns_with_the_cnn(digits):
    """It stands still for thousands of steps at first, so this is for native layers, which make them in seconds."""
    torch.set_num_threads(1)
    model = ImageNetwork("cnn", "ortho").build(2)
    assert switch(model, True)
    train_on_images(model, digits, Protocol(steps=7000, epochs=1))
    switch(model, False)
    assert min(accuracy_by_slot(model, digits)) > 0.8


def test_a_run_is_kept_and_not_repeated(tmp_path, digits, monkeypatch):
    trained = []
    original = runs_module.train_on_images

    def train(model, data, protocol, **options):
        trained.append((model.num_instances, options["seed"]))
        if len(trained) == 4:
            raise KeyboardInterrupt
        original(model, data, replace(protocol, steps=3), **options)

    monkeypatch.setattr(runs_module, "train_on_images", train)
    options = {"seeds": 3, "epochs": 1, "sizes": [1, 2], "series": ["ortho"]}
    with pytest.raises(KeyboardInterrupt):
        run_figure("mnist-mlp", digits, tmp_path, **options)
    assert not (tmp_path / "mnist-mlp.json").exists()
    assert len(list((tmp_path / "runs").iterdir())) == 3
    seen = []
    record = run_figure(
        "mnist-mlp",
        digits,
        tmp_path,
        open_progress=lambda total, done: seen.append(done / total) or seen.append,
        **options,
    )
    assert trained == [(2, 0), (2, 1), (2, 2), (1, 0), (1, 0), (1, 1), (1, 2)], "long runs first, the fourth twice"
    assert 0.5 < seen[0] < 0.7, "what was finished counts as done"
    assert [(r["series"], r["n"], r["seed"]) for r in record["results"]] == [
        ("ortho", n, seed) for n in (1, 2) for seed in range(3)
    ]
    again = run_figure("mnist-mlp", digits, tmp_path, **options)
    assert len(trained) == 7
    assert again["results"] == record["results"]
    run_figure("mnist-mlp", digits, tmp_path, **options | {"epochs": 2, "seeds": 1, "sizes": [1]})
    assert len(trained) == 8, "other settings are another run"


def test_runs_at_once_give_what_runs_in_turn_give(tmp_path, digits):
    figure = get_figure("mnist-mlp")
    series = [replace(figure.series[1], sizes=(1, 2), protocol=Protocol(steps=30, epochs=1))]
    work = runs_module.runs_of(series, 1)
    told = []
    for folder, jobs in (("one", 1), ("two", 2)):
        runs_module.perform_all(
            work,
            tmp_path / folder,
            digits,
            jobs=jobs,
            progress=told.append if jobs == 2 else lambda c: None,
        )
    assert sum(told) == pytest.approx(sum(run.cost for run in work))
    for run in work:
        one, two = (runs_module.finished(run, tmp_path / folder, digits) for folder in ("one", "two"))
        assert one["result"]["slots"] == two["result"]["slots"]
        assert one["made_by"]["commit"] == two["made_by"]["commit"]


def test_rows_are_means_over_seeds_and_spreads_over_indices():
    results = [
        {"series": "ortho", "n": 8, "seed": seed, "accuracy": sum(slots) / 2, "slots": slots, "seconds": 1.0}
        for seed, slots in enumerate(([0.8, 0.6], [0.9, 0.9]))
    ]
    data = {"source": "MNIST", "train": 60_000, "test": 10_000}
    assert rows_of({"kind": "reproduce", "figure": "mnist-mlp", "data": data, "results": results}) == [
        {"series": "ortho", "n": 8, "metric": "accuracy, %", "value": 80.0, "spread": 5.0, "seeds": 2, "paper": 78.0}
    ]


def test_a_picture_is_drawn_again_from_its_record(tmp_path, digits):
    quick = replace(QUICK, steps=60)
    both = [replace(series, sizes=(3,), protocol=quick) for series in FIGURES["mnist-picture"].series]
    record = picture_record(both, digits)
    write_record(record, tmp_path / "record.json")
    record = read_record(tmp_path / "record.json")
    first = record["results"][1]
    assert first["labels"] == digits.test_labels[3:6].tolist()
    torch.testing.assert_close(torch.tensor(first["digits"]) / 255, digits.test_images[3:6], atol=3e-3, rtol=0)
    assert [seen["series"] for seen in first["seen"]] == [series.name for series in both]
    mixture = both[0].network.build(3).multiplexer(digits.test_images[3:6][None])[0]  # it learns nothing
    torch.testing.assert_close(torch.tensor(first["seen"][0]["mixture"]) / 100, mixture, atol=6e-3, rtol=0)
    draw_figure(record, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert [row["n"] for row in rows_of(record)] == [3, 3]


def test_speed_is_measured_against_the_plain_network(tmp_path, digits):
    record = speed_record(digits, rounds=2, count=32, seconds=0.001)
    rows = {(row["series"], row["n"], row["metric"]): row["value"] for row in rows_of(record)}
    assert [rows[f"{figure}: identity", 1, RATIO] for figure in ("mnist-mlp", "mnist-cnn")] == [1.0, 1.0]
    assert {n for _, n, _ in rows} == {1, 2, 4, 8, 16}
    assert {metric for *_, metric in rows} == {RATE, RATIO}, "these are not the digits of the committed records"
    for result in record["results"]:
        assert len(result["rates"]) == 2
        assert min(result["rates"]) > 0
    draw_figure(record, tmp_path / "speed.png")


def datamux(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "datamux.cli", "reproduce", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_a_figure_on_other_digits_says_which(tmp_path, monkeypatch):
    monkeypatch.delenv("DATAMUX_DATA", raising=False)
    used = load_mnist().held_out()  # from wherever they are found here
    options = ["--series", "ortho", "-n", "1", "--seeds", "1", "--epochs", "1", "--held-out", "-o", str(tmp_path)]
    done = datamux("mnist-mlp", *options, "--plot", str(tmp_path / "plot.png"))
    assert done.returncode == 0, done.stderr
    assert f"data: {used}" in done.stderr
    assert "held out of training" in done.stdout.splitlines()[0]
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    record = read_record(tmp_path / "held-out/mnist-mlp.json")
    assert record["data"] == used.about()
    (row,) = rows_of(record)
    assert (row["paper"], row["seeds"]) == (None, 1)
    assert row["value"] > 80, "it learned"


def test_the_list_names_every_figure():
    rows = json.loads(datamux("--list", "--json").stdout)
    assert [row["figure"] for row in rows] == list(FIGURES)
    assert {"mnist-mlp", "mnist-cnn", "mnist-cnn-kernels", "mnist-pca", "mnist-beaten"} <= set(FIGURES)


@pytest.mark.parametrize("name", [name for name in FIGURES if has_record(name)])
def test_committed_results_are_shown_as_rows(name):
    rows = json.loads(datamux(name, "--show", "--json").stdout)
    assert rows
    for row in rows:
        assert tuple(row) == COLUMNS
        assert isinstance(row["value"], float)
        assert row["n"] >= 1
        assert row["seeds"] >= 1


def test_bad_input_is_one_line():
    missing = next((name for name in FIGURES if not has_record(name)), None)
    wrong = [
        ["mnist"],
        ["mnist-mlp", "--series", "othro", "-o", os.devnull],
        ["mnist-mlp", "--data-dir", "/nowhere"],
        [],
    ]
    for arguments in [*wrong, *([[missing, "--show"]] if missing else [])]:
        done = datamux(*arguments)
        assert done.returncode == 2
        assert done.stderr.strip().splitlines()[-1].startswith("datamux: ")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("mnist-pca --show --series centred", "--series does not apply to mnist-pca --show; it takes --plot, --json"),
        ("mnist-pca --show --held-out", "--held-out does not apply to mnist-pca --show"),
        ("mnist-pca --epochs 1", "--epochs does not apply to mnist-pca; it takes --data-dir, --out, --plot, --json"),
        ("mnist-speed -n 2", "-n does not apply to mnist-speed"),
        ("mnist-picture --seeds 2", "--seeds does not apply to mnist-picture"),
        ("mnist-picture -n 2 -n 4", "mnist-picture is of one group size"),
        ("mnist-mlp --show --seeds 3", "--seeds does not apply to mnist-mlp --show; it takes --series, -n"),
    ],
)
def test_an_option_that_does_not_apply_is_named(arguments, message, monkeypatch, capsys):
    from datamux.cli import main

    monkeypatch.setattr(sys, "argv", ["datamux", "reproduce", *arguments.split()])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_a_part_of_the_committed_results_is_shown(monkeypatch, capsys):
    from datamux.cli import main
    from datamux.reproduce import committed

    results = [
        {"series": series, "n": n, "seed": 0, "accuracy": 0.5, "slots": [0.5] * n}
        for series in ("ortho", "low_rank")
        for n in (1, 8)
    ]
    data = {"source": "MNIST", "train": 60_000, "test": 10_000}
    record = {"kind": "reproduce", "figure": "mnist-mlp", "data": data, "results": results}
    monkeypatch.setattr(committed, "committed", lambda name: record)
    options = ["--show", "--json", "--series", "ortho", "-n", "8", "-n", "8"]
    monkeypatch.setattr(sys, "argv", ["datamux", "reproduce", "mnist-mlp", *options])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    (row,) = json.loads(capsys.readouterr().out)
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
    rows = {row["series"]: row for row in pca_record(load_mnist())["rows"]}
    assert round(rows["as_published"]["value"], 2) == 86.54 == rows["as_published"]["paper"]
    assert round(rows["centred"]["value"], 2) == 84.44
