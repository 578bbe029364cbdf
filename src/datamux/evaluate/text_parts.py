"""Where the time goes from texts to answers: tokenising, padding, the model, the answers. Microseconds a text.

The predictor's own steps, one after the other. It tokenises in the background, so its own time is a little less.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from datamux.evaluate.contenders import evenly
from datamux.inference.plan import plan_passes
from datamux.inference.predictor import Predictor, window_size
from datamux.inference.runtime import POSITIONS, groups_that_fit
from datamux.inference.texts import Text


@dataclass(frozen=True)
class TextParts:
    """Microseconds that one text takes, the median over the rounds. `pad`: sorting by length and padding."""

    name: str
    group_size: int
    tokenise: float
    pad: float
    run: float
    answer: float


def measure_text_parts(
    predictors: dict[str, Predictor], texts: Sequence[Text], group_sizes: Sequence[int], *, rounds: int = 3
) -> list[TextParts]:
    """Each predictor at each group size that it has; all take turns. Words are known after the round that warms up.

    As many texts as make a predictor's window at that group size, long and short ones as in the whole: fewer would be
    less alike, and padded more.
    """
    points = [(name, k) for name, one in predictors.items() for k in group_sizes if k <= one.num_instances]
    seen: dict[tuple[str, int], list[dict[str, float]]] = {point: [] for point in points}
    dealt = evenly(texts, next(iter(predictors.values())).texts.letters)
    for number in range(rounds + 1):
        for name, k in points:
            some = dealt[: window_size(k)]
            spent = _run(predictors[name], some, k)
            if number:
                seen[name, k].append({part: 1e6 * seconds / len(some) for part, seconds in spent.items()})
    return [
        TextParts(name, k, **{part: median(one[part] for one in found) for part in found[0]})
        for (name, k), found in seen.items()
    ]


def _run(predictor: Predictor, texts: Sequence[Text], k: int) -> dict[str, float]:
    spent = dict.fromkeys(("tokenise", "pad", "run", "answer"), 0.0)

    def timed(part: str, step: Callable[..., Any], *given: Any) -> Any:
        before = time.perf_counter()
        found = step(*given)
        spent[part] += time.perf_counter() - before
        return found

    runtime = predictor.runtime
    positions = predictor.positions or POSITIONS[runtime.device.type]
    fits = partial(groups_that_fit, runtime, group_size=k, positions=positions, memory=predictor.memory)
    window = timed("tokenise", predictor.texts.window, texts)
    for rows in timed("pad", plan_passes, window.lengths, k, fits):
        batch = timed("pad", window.rows.batch, rows)
        logits = timed("run", runtime.logits, batch, min(k, len(rows)))
        timed("answer", predictor.answers, window, rows, logits)
    return spent
