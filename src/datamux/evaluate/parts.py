"""Where the time of one pass goes: mixing, the encoder, taking apart, the head. Milliseconds a group.

Hooks on the model's own modules note when each starts and ends; what is left is grouping, mixing, layers below
`mux_layer`, and a bypass.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel


@dataclass(frozen=True)
class Parts:
    """Milliseconds that one group takes, the median over the rounds. `plain` is the plain model on one instance."""

    group_size: int
    mixing: float
    encoder: float
    demultiplexer: float
    head: float
    plain: float


def measure_parts(
    plain: PreTrainedModel,
    model: PreTrainedModel,
    group_sizes: Sequence[int],
    *,
    tokens: int,
    groups: int,
    rounds: int = 10,
    bf16: bool = False,
) -> list[Parts]:
    """Passes of `groups` full groups; plain and multiplexed take turns."""
    shape, chance = (groups * max(group_sizes), tokens), torch.Generator().manual_seed(0)
    words = torch.randint(5, plain.config.vocab_size, shape, generator=chance)
    names = {"encoder": model.mux.backbone.upper, "demultiplexer": model.mux.demultiplexer, "head": model.mux.head}
    found = []
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16), watched(names) as spent:
        for k in group_sizes:
            seen: list[dict[str, float]] = []
            for number in range(rounds + 2):
                spent.clear()
                spent["plain"] = timed(plain, words[:groups])
                whole = timed(model, words[: groups * k], group_size=k)
                spent["mixing"] = whole - sum(spent[name] for name in names)
                if number >= 2:  # the first ones warm up
                    seen.append({name: 1000 * seconds / groups for name, seconds in spent.items()})
            found.append(Parts(k, **{name: median(one[name] for one in seen) for name in seen[0]}))
    return found


def timed(model: nn.Module, words: torch.Tensor, **options: Any) -> float:
    before = time.perf_counter()
    model(input_ids=words, **options)
    return time.perf_counter() - before


@contextmanager
def watched(modules: dict[str, nn.Module]) -> Iterator[dict[str, float]]:
    """Seconds spent in each of these modules, summed up while the context lasts."""
    spent: dict[str, float] = {}
    hooks = []
    for name, module in modules.items():

        def start(module: nn.Module, given: Any, name: str = name) -> None:
            spent[name] = spent.get(name, 0.0) - time.perf_counter()

        def end(module: nn.Module, given: Any, result: Any, name: str = name) -> None:
            spent[name] += time.perf_counter()

        hooks += [module.register_forward_pre_hook(start), module.register_forward_hook(end)]
    try:
        yield spent
    finally:
        for hook in hooks:
            hook.remove()
