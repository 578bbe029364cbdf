"""Images a second of the paper's networks and of ours against N, beside their accuracy.

Every round times every network on the same images; ratios to the plain network are taken within a round. Weights are
random: they do not change the time.
"""

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch

from datamux.evaluate.records import make_record
from datamux.reproduce.beaten import BEATEN
from datamux.reproduce.runs import one_thread
from datamux.reproduce.series import SIZES
from datamux.tasks.images import Images
from datamux.train.image_networks import ImageNetwork

NETWORKS = {
    "mlp identity": ImageNetwork("mlp", "identity"),
    "mlp ortho": ImageNetwork("mlp", "ortho"),
    "mlp low_rank": ImageNetwork("mlp", "low_rank"),
    "cnn identity": ImageNetwork("cnn", "identity"),
    "cnn ortho": ImageNetwork("cnn", "ortho"),
    "cnn rotation": ImageNetwork("cnn", "rotation"),
    "cnn nonlinear": ImageNetwork("cnn", "nonlinear"),
    "cnn nonlinear_8x": ImageNetwork("cnn", "nonlinear_8x"),
}
OURS = ("mlp learned_principal", "cnn learned_mosaic", "cnn tiles", "cnn tiles_8x")
NETWORKS |= {s.name: s.network for s in BEATEN if s.name in OURS}


def speed_record(data: Images, *, rounds: int = 5, count: int = 3200) -> dict[str, Any]:
    """Ratios to the plain network of the same backbone, as rows and round by round."""
    results: list[dict[str, Any]] = []
    rows = []
    with one_thread():
        for backbone in ("mlp", "cnn"):
            named = {name: network for name, network in NETWORKS.items() if network.backbone == backbone}
            points = [(name, n) for name in named for n in SIZES[1:]]
            plain = next(iter(named.values())).build_plain()
            models = [plain, *(named[name].build(n).eval() for name, n in points)]
            base, *rates = take_turns(models, data.test_images, count=count, rounds=rounds)
            results.append({"series": f"{backbone} plain", "n": 1, "rates": base, "ratios": [1.0] * rounds})
            for (name, n), seen in zip(points, rates, strict=True):
                ratios = [mine / theirs for mine, theirs in zip(seen, base, strict=True)]
                results.append({"series": name, "n": n, "rates": seen, "ratios": ratios})
    for result in results:
        ratios = result["ratios"]
        rows.append(
            {
                "series": result["series"],
                "n": result["n"],
                "metric": "images a second, times plain",
                "value": median(ratios),
                "spread": (max(ratios) - min(ratios)) / 2,
                "seeds": 1,
                "paper": None,
            }
        )
    settings = {"rounds": rounds, "images": count, "threads": 1}
    return make_record(
        "speed", recipe=None, figure="mnist-speed", settings=settings, data=data.about(), rows=rows, results=results
    )


@torch.inference_mode()
def take_turns(
    models: Sequence[torch.nn.Module], images: torch.Tensor, *, count: int, rounds: int
) -> list[list[float]]:
    """Images a second of each model in each round, `count` at once."""
    batch = images[torch.arange(count) % len(images)]
    for model in models:
        model(batch)
    rates: list[list[float]] = [[] for _ in models]
    for _ in range(rounds):
        for model, seen in zip(models, rates, strict=True):
            before = time.perf_counter()
            model(batch)
            seen.append(count / (time.perf_counter() - before))
    return rates
