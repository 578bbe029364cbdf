"""The models in the package, packed in half precision, then scored: all of four layers, each beside a plain one.

The sentiment model comes from a warm-up, the tagger from the encoder in the package.
"""

from typing import Any

from datamux.reproduce.experiment import Experiment


def _packaged(name: str, kind: Any, model: str, task: str, n: int, *options: str) -> Experiment:
    about: dict[str, Any] = {"family": "distilled", "n": n, "task": task, "options": options, "groupings": 8}
    return Experiment("packaged-models", name, kind, settings={"model": model}, **about)


PACKAGED = (
    _packaged("sentiment", "package", "{sst2/distilled-n20-consistent-24}", "sst2", 20),
    _packaged("sentiment-plain", "package", "{sst2/distilled-plain}", "sst2", 1),
    _packaged("ner", "package", "{conll2003/encoder-n10-mux-layer-2}", "conll2003", 10),
    _packaged("ner-plain", "package", "{conll2003/encoder-plain}", "conll2003", 1),
    _packaged("sentiment-filler-repeat", "evaluate", "sentiment", "sst2", 20, "--filler", "repeat"),
)
