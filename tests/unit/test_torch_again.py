"""Committed CNN runs, again in torch: the page says what the record says, and the record what was committed."""

from pathlib import Path
from statistics import fmean, stdev

import pytest
import torch

from datamux.reproduce.images import torch_again
from datamux.reproduce.images.rows import torch_again_table
from datamux.reproduce.images.torch_again import POINTS, native_runs, torch_again_record
from datamux.reproduce.records import committed as committed_record
from datamux.vision.digits import Images

PAGE = Path(__file__).parents[2] / "docs/vision.md"


def test_the_page_says_what_the_record_says():
    page, record = PAGE.read_text(), committed_record("torch-again")
    text = "\n".join(torch_again_table(record))
    assert f"<!-- results: torch-again -->\n{text}\n<!-- end of results -->" in page
    record["results"][0]["now"] += 0.01
    assert "\n".join(torch_again_table(record)) != text, "another record would be another page"


def test_the_record_is_about_committed_runs_on_mnist():
    record = committed_record("torch-again")
    assert record["data"] == {"source": "MNIST", "train": 60_000, "test": 10_000}
    assert not record["commit"].endswith("+changes")
    points = [(row["series"], row["n"]) for row in record["results"]]
    assert {point: points.count(point) for point in points} == POINTS
    for row in record["results"]:
        _, committed = native_runs(row["series"], row["n"])
        accuracies = {run["seed"]: run["accuracy"] for run in committed}
        assert sorted(accuracies) == [0, 1, 2]
        assert row["committed"] == accuracies[row["seed"]]
        assert row["spread_of_seeds"] == pytest.approx(stdev(accuracies.values()), rel=1e-4)
        assert fmean(row["interval"]) == pytest.approx(fmean(accuracies.values()), rel=1e-4)


def test_runs_are_those_of_the_committed_settings(tmp_path, monkeypatch):
    performed = []
    monkeypatch.setattr(torch_again, "perform_all", lambda runs, *_, **__: performed.extend(runs))
    monkeypatch.setattr(torch_again, "finished", lambda run, *_: {"result": {"accuracy": 0.9 + run.seed / 100}})
    nothing = Images(torch.zeros(1, 400), torch.zeros(1), torch.zeros(1, 400), torch.zeros(1), "none", "memory")
    record = torch_again_record(nothing, tmp_path, {("identity", 1): 1, ("cnn tiles", 4): 2})
    assert [(run.series.name, run.n, run.seed) for run in performed] == [
        ("identity", 1, 0),
        ("cnn tiles", 4, 0),
        ("cnn tiles", 4, 1),
    ]
    assert performed[0].series.network.backbone == "cnn", "the MLP has a series of this name too"
    assert (performed[0].series.protocol.optimiser, performed[1].series.protocol.optimiser) == ("sgd", "adamw")
    assert [row["now"] for row in record["results"]] == [0.9, 0.9, 0.91]
    lines = torch_again_table(record)
    assert lines[0].startswith("0 of 3 runs in torch")
    assert lines[4].startswith("| identity | 1 | 0 | 98.16% | 90.00% | -8.16 | 0.17 | 97.")
    with pytest.raises(ValueError, match="no committed record has a CNN series 'mlp ortho'"):
        native_runs("mlp ortho", 8)
