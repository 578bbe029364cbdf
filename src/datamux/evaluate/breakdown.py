"""Where the time goes: inside one pass of the model, and on the whole way from texts to answers.

`measure_breakdown` puts hooks on the model's own modules, and `measure_text_breakdown` watches the predictor's own
steps, so that what is timed is what runs.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from datamux.evaluate.workloads import evenly
from datamux.inference.predictor import Predictor, window_size
from datamux.inference.runtime import Step
from datamux.inference.texts import Text


class Stopwatch:
    """Sums up the seconds that are spent under each name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: Step) -> Iterator[None]:
        before = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - before


def measure_breakdown(
    baseline: PreTrainedModel,
    model: PreTrainedModel,
    group_sizes: Sequence[int],
    *,
    tokens: int,
    groups: int,
    rounds: int = 10,
    bf16: bool = False,
) -> list[dict[str, float]]:
    """Times passes of `groups` full groups; the baseline and the multiplexed model take turns.

    Milliseconds per group, the median over the rounds; "plain" is the baseline's time for one instance. "mixing" is
    what the other parts leave: grouping, mixing and the layers below `mux_layer`; for a frozen model at group size 1,
    which its own classifier answers, it is the whole pass.
    """
    shape, chance = (groups * max(group_sizes), tokens), torch.Generator().manual_seed(0)
    words = torch.randint(5, baseline.config.vocab_size, shape, generator=chance)
    names = {"encoder": model.mux.backbone.upper, "demultiplexer": model.mux.demultiplexer, "head": model.mux.head}
    found = []
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16), watched(names) as spent:
        for k in group_sizes:
            seen: list[dict[str, float]] = []
            for number in range(rounds + 2):
                spent.clear()
                spent["plain"] = timed(baseline, words[:groups])
                whole_pass = timed(model, words[: groups * k], group_size=k)
                spent["mixing"] = whole_pass - sum(spent.setdefault(name, 0.0) for name in names)
                if number >= 2:  # the first two rounds warm up
                    seen.append({name: 1000 * seconds / groups for name, seconds in spent.items()})
            found.append({"group_size": k} | {name: median(one[name] for one in seen) for name in seen[0]})
    return found


def timed(model: nn.Module, words: torch.Tensor, **options: Any) -> float:
    """Seconds of one forward pass."""
    before = time.perf_counter()
    model(input_ids=words, **options)
    return time.perf_counter() - before


@contextmanager
def watched(modules: dict[str, nn.Module]) -> Iterator[dict[str, float]]:
    """The seconds spent in each of these modules, summed up while the context lasts."""
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


def measure_text_breakdown(
    predictors: dict[str, Predictor], texts: Sequence[Text], group_sizes: Sequence[int], *, rounds: int = 3
) -> list[dict[str, Any]]:
    """Times each predictor at every group size it has slots for; all of them take turns.

    Microseconds per text of every step, the median over the rounds; "pad" includes sorting texts by length.

    Each run answers one window of texts, so its steps follow one another: with several windows, the predictor would
    tokenise the next one while the model runs. The first round warms up, and fills the table of known words.
    """
    points = [(name, k) for name, one in predictors.items() for k in group_sizes if k <= one.num_instances]
    seen: dict[tuple[str, int], list[dict[str, float]]] = {point: [] for point in points}
    mixed_lengths = evenly(texts, next(iter(predictors.values())).texts.letters)
    for number in range(rounds + 1):
        for name, k in points:
            some = mixed_lengths[: window_size(k)]
            stopwatch = Stopwatch()
            predictor = predictors[name].with_settings(watch=stopwatch, tells_cuts=False, merges_copies=False)
            for _ in predictor.as_they_come(some, group_size=k):
                pass
            if number:
                seen[name, k].append({step: 1e6 * seconds / len(some) for step, seconds in stopwatch.spent.items()})
    return [
        {"name": name, "group_size": k} | {step: median(one[step] for one in found) for step in found[0]}
        for (name, k), found in seen.items()
    ]
