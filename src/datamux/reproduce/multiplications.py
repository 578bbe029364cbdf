"""What a text costs in a multiplexed model, counted as layers of its encoder: the products with weights in one pass.

    layers per text = products of a pass of N texts / N / products of one layer (12 d^2 per token)

Everything counts: layers below the mixture, mixing, updates, demultiplexing and the head. Attention between tokens does
not, in any model; with texts as short as these it would add a hundredth.
"""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from datamux.reproduce.records import Record
from datamux.tasks.labels import Labels
from datamux.train.build import build
from datamux.train.recipe import parse_recipe
from datamux.train.stages import HEADS

TOKENS = 24  # of a text, special tokens included
WORDS = 10  # of the vocabulary; looking up a word multiplies nothing


def layers_per_text(record: Record, kind: str) -> float:
    """The cost of a recorded model at its full group size; `kind` is "sequence" or "token"."""
    sizes = {name: record["encoder"][name] for name in ("layers", "hidden", "heads")}
    return _layers_per_text(json.dumps(record["recipe"]["model"], sort_keys=True), json.dumps(sizes), kind)


@cache
def _layers_per_text(model: str, sizes: str, kind: str) -> float:
    """The same model with new weights, which cost as much."""
    shape: dict[str, Any] = json.loads(sizes)
    settings = parse_recipe({"model": json.loads(model)}).model
    settings = replace(settings, start="", frozen=False, keep_layers=0, **shape)
    labels = Labels(("a", "b"), "single_label_classification")
    network = build(settings, HEADS[kind], vocab_size=WORDS, labels=labels).eval().requires_grad_(False)
    n = settings.num_instances
    ids = torch.full((n, TOKENS), WORDS - 1)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(ids, attention_mask=torch.ones_like(ids), group_size=n)
    of_a_layer = 24 * TOKENS * int(shape["hidden"]) ** 2  # a product counts as two operations
    return int(counter.get_total_flops()) / (n * of_a_layer)
