"""Throughput, memory, and where the time goes: the options of `datamux bench`. Run nothing else meanwhile."""

from typing import Any

from datamux.reproduce.experiment import Experiment, Kind

SMALL = {"layers": 4, "hidden": 256, "heads": 4}
BASE = {"layers": 12, "hidden": 768, "heads": 12}
SHORT_BASE = {"layers": 4, "hidden": 768, "heads": 12}
OURS = {"demultiplexer": "gate"}
BF16 = {"lengths": "fixed:128", "engine": "bf16"}
EVERY_ENGINE = {"lengths": "fixed:32", "engine": ["torch", "bf16", "compiled", "onnx", "int8", "openvino"]}
TAGGING = {"tagging": True, "group-size": 20}
PASS = {"tokens": 128, "groups": 8, "bf16": True}
N40 = {"model": "{sst2/scratch-n40}"}
TEXTS = {"texts": True, "lengths": "sst2"}
# Texts per pass -> the plain model that costs as much per text: the width of SMALL divided by the root of k.
AS_CHEAP = {4: "4x128", 9: "4x84", 16: "4x64"}
EQUAL_COST_TOKENS = (128, 512, 2048)
EQUAL_COST = {"group-size": list(AS_CHEAP), "plain-size": list(AS_CHEAP.values()), "rounds": 3}


def _bench(kind: Kind, name: str, *settings: dict[str, Any]) -> Experiment:
    merged: dict[str, Any] = {key: value for part in settings for key, value in part.items()}
    return Experiment(kind, name, kind, settings=merged)


SPEED = (
    _bench("speed", "12l-384h-128-tokens", {"layers": 12, "hidden": 384, "heads": 12}, BF16, OURS),
    _bench("speed", "12l-768h-128-tokens", BASE, BF16),
    _bench("speed", "4l-256h-32-tokens", SMALL, {"lengths": "fixed:32", "plain-size": ["2x128", "1x64"]}),
    _bench("speed", "4l-256h-32-tokens-as-trained", SMALL, {"lengths": "fixed:32", "hidden-dim": 1024}, OURS),
    *(
        _bench("speed", f"4l-256h-{tokens}-tokens-equal-cost", SMALL, EQUAL_COST, OURS, {"lengths": f"fixed:{tokens}"})
        for tokens in EQUAL_COST_TOKENS
    ),
    _bench("speed", "4l-256h-mnli-lengths", SMALL, {"lengths": "mnli"}, OURS),
    _bench("speed", "4l-256h-sst2-lengths", SMALL, {"lengths": "sst2"}, OURS),
    _bench("speed", "4l-768h-128-tokens", SHORT_BASE, BF16, OURS),
    _bench("speed", "engines-4l-256h-32-tokens", SMALL, EVERY_ENGINE, OURS, {"group-size": [10, 20]}),
    _bench("speed", "sst2-texts-4l-256h", N40, TEXTS),
    _bench("speed", "sst2-texts-new-4l-256h", SMALL, TEXTS, OURS),
    _bench("speed", "sst2-texts-sentiment", {"model": "sentiment"}, TEXTS),
    _bench("speed", "tagging-12l-768h-128-tokens", BASE, BF16, OURS, TAGGING),
    _bench("speed", "tagging-as-trained-12l-768h-128-tokens", BASE, BF16, OURS, TAGGING, {"head-context": 2}),
    _bench("memory", "12l-768h", BASE, OURS),
    _bench("memory", "12l-768h-index", BASE, {"demultiplexer": "index"}),
    _bench("breakdown", "12l-768h-128-tokens", BASE, PASS),
    _bench("breakdown", "4l-256h-32-tokens", SMALL, {"tokens": 32}),
    _bench("breakdown", "4l-256h-32-tokens-as-trained", SMALL, {"tokens": 32, "hidden-dim": 1024}),
    _bench("breakdown", "4l-768h-128-tokens", SHORT_BASE, PASS),
    _bench("breakdown", "tagging-12l-768h-128-tokens", BASE, PASS, TAGGING),
    _bench("breakdown", "sst2-texts-4l-256h", N40, TEXTS),
    _bench("breakdown", "sst2-texts-sentiment", {"model": "sentiment"}, TEXTS),
    _bench("serve", "sentiment", {"model": "sentiment", "plain": "sentiment-plain", "profile": True}),
    _bench("soak", "sentiment", {"model": "sentiment"}),
    _bench("cluster", "sentiment", {"model": "sentiment"}),
)
