"""Measurements for the paper's figures that train nothing: anchors, the construction, and the audits of our models."""

from datamux.reproduce.catalogue.mini import SIZES
from datamux.reproduce.experiment import Experiment

PAPER = (
    *(
        Experiment(
            "anchors",
            f"hadamard-index-n{n}",
            "anchors",
            settings={"model": f"{{mini-sst2/hadamard-index-n{n}}}", "data": "sst2", "size": n},
            n=n,
        )
        for n in SIZES
    ),
    Experiment(
        "anchors", "ours-n10", "anchors", settings={"model": "{mini-sst2/ours-n10}", "data": "sst2", "size": 10}, n=10
    ),
    Experiment("anchors", "sentiment", "anchors", settings={"model": "sentiment", "data": "sst2", "size": 20}, n=20),
    Experiment("theory", "construction", "theory"),
    Experiment("audit", "sentiment", "audit", settings={"model": "sentiment"}, n=20, task="sst2"),
    Experiment("audit", "ner", "audit", settings={"model": "ner"}, n=10, task="conll2003"),
)
