"""Runs are stored with what made them, found again by their settings, and not found by code that would give others."""

import json
import multiprocessing
import os
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from datamux.reproduce.catalogue import choose, get_experiment
from datamux.reproduce.experiment import narrowed
from datamux.reproduce.images import runs as image_runs
from datamux.reproduce.images.measurements import measure
from datamux.reproduce.images.runs import VERSION, Run, finished, perform, perform_all, share_out
from datamux.vision.digits import Images
from datamux.vision.training import Protocol, train_on_images

# What networks answer after three steps, in the mean over |answers|. Where one of these changes, runs give something
# else than before: raise VERSION, and write down the new numbers.
OF_VERSION = 2
ANSWERS = {
    "mnist-mlp: identity": 0.41444,
    "mnist-mlp: ortho": 0.33836,
    "mnist-mlp: low_rank": 0.28565,
    "mnist-cnn: identity": 0.13395,
    "mnist-cnn: ortho": 0.12546,
    "mnist-cnn: low_rank": 0.11712,
    "mnist-cnn: nonlinear_as_published": 0.14859,
    "mnist-cnn: nonlinear": 0.10999,
    "mnist-cnn-kernels: rotation_as_published": 0.10927,
    "mnist-cnn-kernels: rotation": 0.13444,
    "mnist-cnn-kernels: random_kernel": 0.16014,
    "mnist-cnn-kernels: learned_kernel": 0.16013,
    "mnist-cnn-kernels: mosaic_as_published": 0.10434,
    "mnist-cnn-kernels: mosaic": 0.10529,
    "mnist-cnn-kernels: nonlinear_as_published": 0.14859,
    "mnist-cnn-kernels: nonlinear": 0.10999,
    "mnist-cnn-kernels: nonlinear_4x_as_published": 0.07856,
    "mnist-cnn-kernels: nonlinear_8x_as_published": 0.1118,
    "mnist-ours: mlp identity": 0.57389,
    "mnist-ours: mlp ortho, our demultiplexer": 0.73863,
    "mnist-ours: mlp ortho, our training": 0.18819,
    "mnist-ours: mlp ortho, our training and readout": 0.19484,
    "mnist-ours: mlp ortho": 0.5264,
    "mnist-ours: mlp learned_ortho": 0.60827,
    "mnist-ours: cnn identity": 0.49434,
    "mnist-ours: cnn ortho": 0.44822,
    "mnist-ours: cnn learned_mosaic": 0.4589,
    "mnist-ours: cnn tiles": 0.48687,
    "mnist-ours: cnn tiles_8x": 0.57536,
    "mnist-ours: cnn nonlinear_8x": 0.59268,
    "mnist-picture: mlp ortho (the paper's)": 0.33836,
    "mnist-picture: cnn tiles": 0.48687,
}


@pytest.fixture(scope="module")
def noise() -> Images:
    generator = torch.Generator().manual_seed(0)
    images = [torch.rand(count, 400, generator=generator) for count in (40, 12)]
    labels = [torch.arange(count) % 10 for count in (40, 12)]
    return Images(images[0], labels[0], images[1], labels[1], "noise", "memory")


def test_other_answers_need_another_version(noise):
    found = {}
    for experiment in choose("mnist"):
        for series in experiment.series:
            if series.network.multiplexer.endswith("principal"):
                continue  # the signs of its directions differ from machine to machine; see the next test
            model = series.network.build(2)
            train_on_images(model, noise, replace(series.protocol, groups=4, steps=3, epochs=1))
            with torch.inference_mode():
                found[f"{experiment.name}: {series.name}"] = round(float(model(noise.test_images).abs().mean()), 5)
    assert VERSION == OF_VERSION
    assert found == pytest.approx(ANSWERS, rel=2e-3)


def test_principal_components_without_their_signs(noise):
    """What a mixture keeps of an image does not depend on signs: each image's leading components, and no others."""
    for name in ("principal", "learned_principal"):
        series = next(s for s in get_experiment("mnist-ours").series if s.name == f"mlp {name}")
        multiplexer = series.network.build(16).multiplexer
        multiplexer.fit(noise.train_images)
        alone = torch.zeros(12, 16, 400)
        alone[:, 5] = noise.test_images
        with torch.inference_mode():
            lengths = multiplexer(alone).norm(dim=-1)
        assert float(lengths.mean()) == pytest.approx(2.75108, rel=1e-3)


def test_an_interruption_starts_no_further_run():
    started, over = [], threading.Event()

    def work(run):
        started.append(run)
        if run == 1:
            raise KeyboardInterrupt
        over.wait(60)

    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(KeyboardInterrupt):
            share_out([1, 2, 3, 4, 5], lambda run: pool.submit(work, run), 2, queue.Queue(), lambda cost: None)
        over.set()
    assert sorted(started) == [1, 2]


class Killed(Run):
    """Ends its process, as the system does with one that takes too much memory."""

    def file(self, folder, data):
        if multiprocessing.parent_process() is not None:
            os._exit(9)
        return super().file(folder, data)


def test_a_killed_process_is_one_line(tmp_path, noise):
    run = Killed(get_experiment("mnist-mlp").series[0], 1, 0)
    run = replace(run, series=replace(run.series, protocol=Protocol(steps=1, epochs=1)))
    with pytest.raises(ChildProcessError, match="try fewer --jobs; finished runs are stored"):
        perform_all([run], tmp_path, noise, jobs=2, progress=lambda cost: None)


def test_a_stored_run_says_what_made_it(tmp_path, noise):
    series = replace(get_experiment("mnist-mlp").series[1], protocol=Protocol(steps=2, epochs=1))
    run = Run(series, 2, 0)
    assert finished(run, tmp_path, noise) is None
    perform(run, tmp_path, noise, {"commit": "abc"})
    stored = finished(run, tmp_path, noise)
    assert stored["made_by"] == {"commit": "abc"}
    assert stored["settings"]["version"] == VERSION
    assert stored == json.loads(run.file(tmp_path, noise).read_text())


def test_runs_of_another_version_are_not_used_again(tmp_path, noise, monkeypatch):
    run = Run(replace(get_experiment("mnist-mlp").series[1], protocol=Protocol(steps=1, epochs=1)), 1, 0)
    perform(run, tmp_path, noise, {})
    monkeypatch.setattr(image_runs, "VERSION", VERSION + 1)
    assert finished(run, tmp_path, noise) is None


@pytest.fixture
def one_step(monkeypatch):
    """Runs of one step; what was trained."""
    trained = []

    def train(model, data, protocol, **options):
        trained.append((model.num_instances, options["seed"]))

    monkeypatch.setattr(image_runs, "train_on_images", train)
    return trained


def test_a_record_lists_what_made_its_runs(tmp_path, noise, one_step, monkeypatch):
    for number, commit in enumerate(("old", "new")):
        made_by = {"commit": commit, "versions": {"torch": "2"}, "hardware": {}, "date": f"2026-01-0{number + 1}"}
        monkeypatch.setattr(image_runs, "provenance", lambda made_by=made_by: made_by)
        some = narrowed(get_experiment("mnist-mlp"), ["ortho"], [2], seeds=1 + 2 * number)
        record = measure(some, noise, tmp_path)
    assert one_step == [(2, 0), (2, 1), (2, 2)]
    shared = {"versions": {"torch": "2"}, "hardware": {}}
    assert record["made_by"] == [
        {"commit": "old", **shared, "runs": 1, "first": "2026-01-01", "last": "2026-01-01"},
        {"commit": "new", **shared, "runs": 2, "first": "2026-01-02", "last": "2026-01-02"},
    ]
    assert record["version"] == VERSION


def test_what_is_asked_for_twice_is_run_once(tmp_path, noise, one_step):
    record = measure(narrowed(get_experiment("mnist-mlp"), ["ortho", "ortho"], [4, 4], seeds=1), noise, tmp_path)
    assert one_step == [(4, 0)]
    assert len(record["results"]) == 1
    assert record["recipe"]["ortho"]["sizes"] == [4]


def test_an_impossible_size_fails_before_anything_is_trained(tmp_path, noise, one_step):
    with pytest.raises(ValueError, match="3 does not divide 400"):
        measure(narrowed(get_experiment("mnist-mlp"), sizes=[2, 3], seeds=1), noise, tmp_path)
    assert not one_step
    with pytest.raises(ValueError, match="shows one group size"):
        narrowed(get_experiment("mnist-picture"), sizes=[2, 4])
