"""What `datamux demo` shows: answers of the packaged models beside their plain ones, and how fast each is here."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from datamux.evaluate.plots import pyplot_without_window, save_figure
from datamux.evaluate.timing import Contender, compare_speed
from datamux.evaluate.workloads import FromTexts
from datamux.inference.predictor import Predictor, load
from datamux.zoo import shipped_folder, shipped_models
from datamux.zoo.sentences import NEWS, OPINIONS

SENTENCES = {"sentiment": OPINIONS, "ner": NEWS}
LEAST = 5  # the smallest group size that is measured
POSITIONS = (2048, 1024, 512, 256, 128)  # per pass, the best first
FIRST = 1024  # the plain model gets at least this many, because it would lose much speed with fewer
TRIAL = 256  # positions of the pass that is timed to see how fast the machine is
UNITS = 3  # how often `compare_speed` runs each contender before the rounds, with one size to choose from


@dataclass
class Pair:
    """A packaged model and its plain one."""

    name: str
    plain: Predictor
    mixed: Predictor


@dataclass
class Shown:
    """One model beside its plain one: their answers for the same texts, and their speeds."""

    name: str
    metric: str
    group_size: int  # texts per group for the multiplexed model
    texts: list[str]
    plain: list[Any]
    mixed: list[Any]
    company: int = 0  # our own texts that were added to fill every group
    speeds: list[dict[str, Any]] = field(default_factory=list)  # the plain model first

    @property
    def equal(self) -> float:
        """The share of texts that got the same answer, whatever its score."""
        return fmean(bare(one) == bare(other) for one, other in zip(self.plain, self.mixed, strict=True))


def load_pair(name: str) -> Pair:
    """Load both from the package, even if the working directory has a folder of that name."""
    return Pair(name, load(shipped_folder(f"{name}-plain")), load(shipped_folder(name)))


def answer_texts(pair: Pair, texts: Sequence[str]) -> Shown:
    """Answers for `texts`, or for our own sentences if none are given, with all slots in use.

    A few texts would not fill the slots, so our sentences are added: full groups are the usual case, and the hardest.
    """
    ours = SENTENCES[pair.name]
    chosen = list(dict.fromkeys(texts)) or list(ours)  # the predictor would run copies only once
    k = pair.mixed.num_instances
    company = [text for text in ours if text not in chosen][: -len(chosen) % k]
    answers = pair.mixed(chosen + company, group_size=k)[: len(chosen)]
    metric = shipped_models()[pair.name]["metric"]
    return Shown(pair.name, metric, k, chosen, pair.plain(chosen), answers, len(company))


def measure_speed(
    pair: Pair,
    texts: Sequence[str],
    *,
    rounds: int,
    seconds: float,
    max_seconds: float,
    tell: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Texts per second of the plain model, then of the other at several group sizes, in about `max_seconds` seconds."""
    cards = shipped_models()
    card, plain_card = cards[pair.name], cards[f"{pair.name}-plain"]
    given = [*texts, *SENTENCES[pair.name]]
    sizes = [k for k in map(int, card["scores"]) if k >= min(LEAST, card["num_instances"])]
    tokens = fmean(pair.plain.texts.window(given).lengths)
    contenders = [Contender("plain", FromTexts(pair.plain, given, 1), 1, tokens)]
    contenders += [Contender(f"{k} per pass", FromTexts(pair.mixed, given, k), k, tokens) for k in sizes]
    positions, possible = choose_pace(contenders, rounds=rounds, seconds=seconds, max_seconds=max_seconds)
    largest = max(positions)
    for contender, chosen in zip(contenders, positions, strict=True):
        contender.tokens *= largest / chosen  # all are measured at one size, so this gives fewer texts per pass

    found = compare_speed(contenders, rounds=possible, seconds=seconds, positions=[largest], tell=tell)
    scores = [plain_card["scores"]["1"], *(card["scores"][str(k)] for k in sizes)]
    return [
        speed.as_dict() | {"positions": chosen, "score": score}
        for speed, chosen, score in zip(found, positions, scores, strict=True)
    ]


def choose_pace(
    contenders: Sequence[Contender],
    *,
    rounds: int,
    seconds: float,
    max_seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[int], int]:
    """Positions per pass of each contender, and rounds, so that `compare_speed` takes about `max_seconds` seconds.

    A slow or busy machine gets fewer rounds and smaller passes. A pass costs more the more texts it holds, so a large
    group size gets fewer positions. The first contender keeps enough of them to be near its best on any machine.
    """
    costs = [_seconds_per_position(contender, clock) for contender in contenders]
    many = len(contenders)
    for number in range(rounds, 0, -1):
        # The first contender runs before and after every other.
        unit = max_seconds / (UNITS * many + number * (2 * many - 1))
        if max(seconds / 3, costs[0] * FIRST) <= unit:
            break
    fitting = [[p for p in POSITIONS if cost * p <= unit] or [POSITIONS[-1]] for cost in costs]
    first, *others = [sizes[0] for sizes in fitting]
    return [max(first, FIRST), *others], number


def _seconds_per_position(contender: Contender, clock: Callable[[], float]) -> float:
    instances = max(1, int(TRIAL // contender.tokens)) * contender.group_size
    contender.work(instances, TRIAL)  # warms up
    before = clock()
    contender.work(instances, TRIAL)
    return (clock() - before) / TRIAL


def draw_demo(shown: Sequence[Shown], file: Path) -> None:
    """Texts per second by texts per pass: one panel per model, with the score on each bar."""
    pyplot = pyplot_without_window()
    figure, panels = pyplot.subplots(1, len(shown), figsize=(5 * len(shown), 4), layout="constrained", squeeze=False)
    for axes, one in zip(panels[0], shown, strict=True):
        names = [row["name"] for row in one.speeds]
        bars = axes.bar(names, [row["rate"] for row in one.speeds], color=["gray"] + ["tab:blue"] * (len(names) - 1))
        labels = [f"{row['ratio']:.1f}x\n{one.metric} {100 * row['score']:.1f}" for row in one.speeds]
        axes.bar_label(bars, labels, fontsize=8)
        axes.margins(y=0.15)
        axes.set(title=one.name, ylabel="texts per second, texts to answers")
    save_figure(figure, file)


def bare(answer: Any) -> Any:
    """An answer without its scores."""
    if isinstance(answer, dict):
        return {key: value for key, value in answer.items() if key != "score"}
    return [bare(part) for part in answer]
