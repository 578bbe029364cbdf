"""Scores of the tasks and of the retrieval warm-up (Section 4.2)."""

from itertools import combinations

import numpy as np

from datamux.reproduce.catalogue.mini import SIZES
from datamux.reproduce.figures.growth import due_sizes, growth, warmups
from datamux.reproduce.paper import text_figures as text
from datamux.reproduce.paper.rules.reading import (
    NOISE,
    PAPER_WIDTH,
    TASK_METRICS,
    TASK_NOISE,
    WIDTH,
    Pair,
    compared,
    learned,
    limited,
    lost,
    mini,
    not_worse,
    pairs_of,
    rows_of,
    says_something,
)
from datamux.reproduce.paper.verdict import NotRun, Verdict, Word, at_most_in_part, known, listed, rule, share, signed
from datamux.reproduce.records import records_of

GUESSES = "At this scale, and with this part of the data, the plain model guesses."
NEARLY_ALL = 97.0  # percent of words retrieved: "nearly 100"
APART = 10.0  # points of retrieval accuracy: clearly a better and a worse warm-up


@rule
def task_drop(task: str, small: float, large: float) -> Verdict:
    """Below `small` points as long as an instance has as many dimensions as in the paper at N = 20, then `large`."""
    if not says_something(task):
        return Verdict("cannot be tested here", GUESSES)
    found = lost(task)
    met = sum(points < (small if WIDTH / n >= PAPER_WIDTH / 20 else large) for n, points in found.items())
    return Verdict(share(met, len(found)), f"As the paper says, at the mini scale: {listed(found)} points lost.")


@rule
def sentiment_at_40() -> Verdict:
    rows, metric = rows_of("tasks"), text.METRICS["sst2"]
    base = known(rows, metric, "plain, 2L/512H", (1,))[1]
    points = {n: base - score for n, score in known(rows, metric, "ours, 2L/512H, no warm-up", (20, 40)).items()}
    word: Word = "holds" if points[40] <= 2 else "holds in part" if points[40] <= 4 else "does not hold"
    return Verdict(
        word, f"Our best small model loses {points[40]:.1f} points at N = 40 and {points[20]:.1f} at N = 20."
    )


@rule
def easy_tasks() -> Verdict:
    tasks, met, parts = ("sst2", "qqp", "qnli"), [], []
    for task in tasks:
        if says_something(task):
            found = lost(task)
            met.append(max(found.values()) <= TASK_NOISE)
            parts.append(f"{text.METRICS[task]}: {listed(found)} lost")
        else:
            parts.append(f"{text.METRICS[task]}: the plain model guesses")
    because = f"{'; '.join(parts)}."
    if not met:
        return Verdict("cannot be tested here", because)
    word = share(sum(met), len(met))
    return Verdict(word if len(met) == len(tasks) else at_most_in_part(word), because)


@rule
def hard_tasks() -> Verdict:
    """Both tasks in the paper's training at the largest N here, and names in our larger model at N = 20."""
    rows, metric = rows_of("tasks"), text.METRICS["conll2003"]
    base = known(rows, metric, text.LARGER_PLAIN, (1,))[1]
    found = {"NER, ours, 4L/256H": {20: base - known(rows, metric, text.LARGER, (20,))[20]}}
    tested = [task for task in ("conll2003", "mnli") if says_something(task)]
    for task in tested:
        found[f"{text.METRICS[task]}, as the paper says"] = lost(task)
    most = [points[max(points)] for points in found.values()]
    because = "; ".join(f"{name}: {listed(points)} lost" for name, points in found.items())
    because += "." if "mnli" in tested else "; MNLI: the plain model guesses."
    if not all(points > TASK_NOISE for points in most):
        return Verdict("holds in part" if any(points > TASK_NOISE for points in most) else "does not hold", because)
    word: Word = "holds" if len(tested) == 2 and all(5 <= points <= 20 for points in most) else "holds in part"
    return Verdict(word, because)


@rule
def small_n() -> Verdict:
    """Only what is above the noise between runs counts as a gain."""
    gains, parts, guessed = [], [], False
    for task in ("sst2", "qqp", "conll2003"):
        if says_something(task):
            found = {n: -points for n, points in lost(task).items() if n <= 5}
            gains += [points > NOISE for points in found.values()]
            parts.append(f"{text.METRICS[task]}: {signed(found)}")
        else:
            guessed = True
            parts.append(f"{text.METRICS[task]}: the plain model guesses")
    if not gains:
        return Verdict("cannot be tested here", GUESSES)
    word = share(sum(gains), len(gains))
    return Verdict(
        at_most_in_part(word) if guessed else word, f"{'; '.join(parts)}; a gain counts from {NOISE:g} points on."
    )


@rule
def ortho_or_hadamard() -> Verdict:
    metrics = (*TASK_METRICS, text.METRICS["qqp"])
    return compared(
        pairs_of("tasks", text.ORTHO, text.PAPER, metrics),
        lambda told: share(sum(abs(pair.apart) <= TASK_NOISE for pair in told), len(told)),
        "Hadamard minus Ortho",
    )


@rule
def published_code() -> Verdict:
    """Not worse than the training that the paper describes, beyond noise."""
    metrics = [text.METRICS[task] for task in ("sst2", "conll2003", "qqp", "mnli")]
    return compared(
        pairs_of("tasks", text.PAPER, text.PUBLISHED, metrics), not_worse, "As published minus as the paper says"
    )


@rule
def retrieval() -> Verdict:
    ours = known(rows_of("retrieval-accuracy"), text.RETRIEVAL, text.LARGER)
    paper = [mini("retrieval-accuracy", text.RETRIEVAL, series) for series in text.PAPER_WARMUPS]
    good = {n: sum(found[n] >= NEARLY_ALL for found in paper) for n in SIZES}
    shown = ", ".join(f"{many} of {len(paper)} at N = {n} ({WIDTH // n})" for n, many in good.items())
    return Verdict(
        share(sum(good.values()), len(paper) * len(SIZES)),
        f"Of the paper's combinations, this many reach {NEARLY_ALL:g}% at the mini scale (in brackets: dimensions per "
        f"instance; the paper has 38 at N = 20): {shown}. Ours, four layers of 256: {listed(ours, '%')}.",
    )


@rule
def upper_bound() -> Verdict:
    """At the same N, is the warm-up that retrieves clearly more the one from which the task scores higher?"""
    found = []
    for name, series in {"keys": ("Gaussian", "learned", "binary"), "mlp-demultiplexer": ("prefix", "MLP")}.items():
        for pair in combinations(series, 2):
            accuracy = [mini(name, text.RETRIEVAL, one) for one in pair]
            scores = [{metric: mini(name, metric, one) for metric in TASK_METRICS} for one in pair]
            for n in SIZES:
                better = int(accuracy[1][n] > accuracy[0][n])
                if accuracy[better][n] - accuracy[1 - better][n] > APART:
                    found += [
                        Pair(metric, f"N = {n}", scores[1 - better][metric][n], scores[better][metric][n])
                        for metric in TASK_METRICS
                    ]
    if not found:
        return Verdict(
            "cannot be tested here", "At the same N, all warm-ups retrieve about as much: the bound was not tried."
        )
    told = [pair for pair in found if pair.says_something]
    met = sum(pair.apart > NOISE for pair in told)
    return limited(
        lambda: share(met, len(told)),
        [(pair.metric, pair.where) for pair in told],
        len(found),
        f"Two warm-ups of the same N whose accuracy is more than {APART:g} points apart: in {met} of {len(told)} "
        f"comparisons the task scores more than {NOISE:g} points higher from the better one.",
    )


@rule
def warmup_needed() -> Verdict:
    """Judged in the paper's own training, where the warm-up lets the task be learned."""
    found = pairs_of("warm-up", text.PAPER, text.NO_WARMUP, TASK_METRICS)
    told = [pair for pair in found if pair.says_something]
    parts = [
        f"{metric} without it: {listed(mini('warm-up', metric, text.NO_WARMUP))}; "
        f"with it: {listed(mini('warm-up', metric, text.PAPER))}"
        for metric in TASK_METRICS
    ]

    def word() -> Word:
        guessed = sum(not learned(pair.metric, pair.second) for pair in told)
        if not guessed and all(pair.apart < -TASK_NOISE for pair in told):
            return "holds in part"  # it learns, but less
        return share(guessed, len(told))

    places = [(pair.metric, pair.where) for pair in told]
    return limited(word, places, len(found), f"{'. '.join(parts)}.{_in_our_training()}")


def _in_our_training() -> str:
    """The same for our training, in a sentence; nothing if there is no record of it."""
    ablation = records_of("task-ablation")
    if not {"as-is", "no-warmup"} <= ablation.keys():
        return ""
    with_it, without = (100 * ablation[name][0]["results"][-1]["score"] for name in ("as-is", "no-warmup"))
    return (
        f" In our training (group sizes that grow, mean over tokens, a teacher), SST-2 with 20 texts per pass after "
        f"600 steps has {without:.1f}% without it and {with_it:.1f}% with it."
    )


@rule
def training_time() -> Verdict:
    groups = records_of("retrieval")
    powers = []
    for record, *_ in groups.values():
        if len(warmups(record)) == 1:
            late = due_sizes(record)
            coped = [(size, minute) for size, _, minute in growth(record) if size not in late and minute > 0]
            if len(coped) > 2:
                sizes, minutes = zip(*coped, strict=True)
                powers.append(float(np.polyfit(np.log(sizes), np.log(minutes), 1)[0]))
    if not powers:
        raise NotRun("a warm-up with a growing group size")
    word: Word = "holds" if all(0.7 <= power <= 1.4 for power in powers) else "holds in part"
    return Verdict(word, f"In our warm-ups, minutes grow as N to the power {', '.join(f'{p:.1f}' for p in powers)}.")
