"""The models in the package, packed in half precision, then scored: all of four layers, each beside a plain one.

The sentiment model comes from a warm-up, the tagger from the encoder in the package. That encoder is taught by MiniLM
and packed, too. It has no task, so nothing of it is scored here: what is made from it has records.
"""

from typing import Any

from datamux.reproduce.experiment import Experiment


def _packaged(name: str, kind: Any, model: str, task: str, n: int, *options: str) -> Experiment:
    about: dict[str, Any] = {"family": "distilled", "n": n, "task": task, "options": options, "groupings": 8}
    return Experiment("packaged-models", name, kind, settings={"model": model}, **about)


# How the encoder is trained, and what its `encoder.json` says of it.
TAUGHT = {"warmup.teacher": "{encoder}"}
ABOUT_ENCODER = (
    "An English encoder of four layers and width 256, taught by MiniLM: what training on your own file starts from"
)
PACKAGED = (
    Experiment("retrieval", "pretrain-plain", "train", "small/pretrain-plain", TAUGHT, "encoder"),
    Experiment(
        "packaged-models", "encoder", "package", settings={"model": "{retrieval/pretrain-plain}"}, about=ABOUT_ENCODER
    ),
    _packaged("sentiment", "package", "{sst2/distilled-n20-consistent-24}", "sst2", 20),
    _packaged("sentiment-plain", "package", "{sst2/distilled-plain}", "sst2", 1),
    _packaged("ner", "package", "{conll2003/encoder-n10-mux-layer-2}", "conll2003", 10),
    _packaged("ner-plain", "package", "{conll2003/encoder-plain}", "conll2003", 1),
    _packaged("sentiment-filler-repeat", "evaluate", "sentiment", "sst2", 20, "--filler", "repeat"),
)
