"""What `datamux demo` shows: the shipped models' answers beside the plain ones', and how fast each gives them here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from datamux.evaluate.contenders import FromTexts
from datamux.evaluate.plots import pyplot_without_window
from datamux.evaluate.speed import Contender, compare_speed
from datamux.inference.predictor import Predictor, load
from datamux.zoo import shipped_models
from datamux.zoo.sentences import NEWS, OPINIONS

SENTENCES = {"sentiment": OPINIONS, "ner": NEWS}
POSITIONS = (512, 2048)  # a pass: few are tried, so that the demo takes seconds
LEAST = 5  # the smallest group size that is measured


@dataclass
class Shown:
    """One model beside its plain one: their answers for the same texts, and what was measured."""

    name: str
    metric: str
    group_size: int  # at which the multiplexed model answered
    texts: list[str]
    plain: list[Any]
    mixed: list[Any]
    speeds: list[dict[str, Any]]  # the plain model first

    @property
    def equal(self) -> float:
        """The share of texts with the same answer, scores aside."""
        return fmean(_bare(one) == _bare(other) for one, other in zip(self.plain, self.mixed, strict=True))


def show_model(
    name: str, texts: Sequence[str], *, seconds: float, rounds: int, tell: Callable[[str], None] = lambda text: None
) -> Shown:
    """Answers for `texts`, or for our own sentences if there are none, with all slots in use; then the speed.

    A few texts would not fill the slots, so ours go along: that is how it is used, and it is when it is hardest.
    """
    cards = shipped_models()
    ours = SENTENCES[name]
    chosen = list(texts) or list(ours)
    plain, mixed = load(f"{name}-plain"), load(name)
    k = mixed.num_instances
    company = [ours[i % len(ours)] for i in range(-len(chosen) % k)]
    tell(f"{name}: answering {len(chosen)} texts, {k} a pass")
    answers = mixed(chosen + company, group_size=k)[: len(chosen)]
    tell(f"{name}: measuring")
    speeds = _measure(plain, mixed, chosen + list(ours), rounds, seconds, cards[name], cards[f"{name}-plain"])
    return Shown(name, cards[name]["metric"], k, chosen, plain(chosen), answers, speeds)


def _measure(
    plain: Predictor,
    mixed: Predictor,
    texts: list[str],
    rounds: int,
    seconds: float,
    card: dict[str, Any],
    plain_card: dict[str, Any],
) -> list[dict[str, Any]]:
    sizes = [k for k in map(int, card["scores"]) if k >= min(LEAST, card["num_instances"])]
    tokens = fmean(plain.texts.window(texts).lengths)
    contenders = [Contender("plain", FromTexts(plain, texts, 1), 1, tokens)]
    contenders += [Contender(f"{k} a pass", FromTexts(mixed, texts, k), k, tokens) for k in sizes]
    found = compare_speed(contenders, rounds=rounds, seconds=seconds, positions=POSITIONS)
    scores = [plain_card["scores"]["1"], *(card["scores"][str(k)] for k in sizes)]
    return [speed.as_dict() | {"score": score} for speed, score in zip(found, scores, strict=True)]


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
    figure.savefig(file, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def _bare(answer: Any) -> Any:
    """An answer without its scores."""
    if isinstance(answer, dict):
        return {key: value for key, value in answer.items() if key != "score"}
    return [_bare(part) for part in answer]
