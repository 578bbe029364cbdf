"""What `datamux demo` shows: the shipped models' answers beside the plain ones', and how fast each gives them here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from datamux.evaluate.contenders import FromTexts
from datamux.evaluate.pace import choose_pace
from datamux.evaluate.plots import pyplot_without_window, save_figure
from datamux.evaluate.speed import Contender, compare_speed
from datamux.inference.predictor import Predictor, load
from datamux.zoo import shipped_folder, shipped_models
from datamux.zoo.sentences import NEWS, OPINIONS

SENTENCES = {"sentiment": OPINIONS, "ner": NEWS}
LEAST = 5  # the smallest group size that is measured


@dataclass
class Pair:
    """A shipped model and its plain one."""

    name: str
    plain: Predictor
    mixed: Predictor


@dataclass
class Shown:
    """One model beside its plain one: their answers for the same texts, and what was measured."""

    name: str
    metric: str
    group_size: int  # at which the multiplexed model answered
    texts: list[str]
    plain: list[Any]
    mixed: list[Any]
    company: int = 0  # texts of ours that went along, so that every pass was full
    speeds: list[dict[str, Any]] = field(default_factory=list)  # the plain model first

    @property
    def equal(self) -> float:
        """The share of texts with the same answer, scores aside."""
        return fmean(bare(one) == bare(other) for one, other in zip(self.plain, self.mixed, strict=True))


def load_pair(name: str) -> Pair:
    """Those of the package, even if the working directory has a folder of that name."""
    return Pair(name, load(shipped_folder(f"{name}-plain")), load(shipped_folder(name)))


def answer_texts(pair: Pair, texts: Sequence[str]) -> Shown:
    """Answers for `texts`, or for our own sentences if there are none, with all slots in use.

    A few texts would not fill the slots, so ours go along: that is how it is used, and it is when it is hardest.
    """
    ours = SENTENCES[pair.name]
    chosen = list(dict.fromkeys(texts)) or list(ours)  # copies would be run once
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
    limit: float,
    tell: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Texts a second of the plain model, then of the other at several group sizes; in about `limit` seconds."""
    cards = shipped_models()
    card, plain_card = cards[pair.name], cards[f"{pair.name}-plain"]
    given = [*texts, *SENTENCES[pair.name]]
    sizes = [k for k in map(int, card["scores"]) if k >= min(LEAST, card["num_instances"])]
    tokens = fmean(pair.plain.texts.window(given).lengths)
    contenders = [Contender("plain", FromTexts(pair.plain, given, 1), 1, tokens)]
    contenders += [Contender(f"{k} a pass", FromTexts(pair.mixed, given, k), k, tokens) for k in sizes]
    positions, possible = choose_pace(contenders, rounds=rounds, seconds=seconds, limit=limit)
    largest = max(positions)
    for contender, own in zip(contenders, positions, strict=True):
        contender.tokens *= largest / own  # fewer texts a pass, though all are measured at one size

    found = compare_speed(contenders, rounds=possible, seconds=seconds, positions=[largest], tell=tell)
    scores = [plain_card["scores"]["1"], *(card["scores"][str(k)] for k in sizes)]
    return [
        speed.as_dict() | {"positions": own, "score": score}
        for speed, own, score in zip(found, positions, scores, strict=True)
    ]


def draw_demo(shown: Sequence[Shown], file: Path) -> None:
    """Texts a second by texts a pass, one panel a model, with the score on each bar."""
    pyplot = pyplot_without_window()
    figure, panels = pyplot.subplots(1, len(shown), figsize=(5 * len(shown), 4), layout="constrained", squeeze=False)
    for axes, one in zip(panels[0], shown, strict=True):
        names = [row["name"] for row in one.speeds]
        bars = axes.bar(names, [row["rate"] for row in one.speeds], color=["gray"] + ["tab:blue"] * (len(names) - 1))
        labels = [f"{row['ratio']:.1f}x\n{one.metric} {100 * row['score']:.1f}" for row in one.speeds]
        axes.bar_label(bars, labels, fontsize=8)
        axes.margins(y=0.15)
        axes.set(title=one.name, ylabel="texts a second, texts to answers")
    save_figure(figure, file)


def bare(answer: Any) -> Any:
    """An answer without its scores."""
    if isinstance(answer, dict):
        return {key: value for key, value in answer.items() if key != "score"}
    return [bare(part) for part in answer]
