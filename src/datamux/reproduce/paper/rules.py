"""The rules for the paper's claims about texts: each computes a verdict from the rows of figures."""

from statistics import fmean

import numpy as np

from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.catalogue.mini import SIZES
from datamux.reproduce.figures.growth import due_sizes, growth, warmups
from datamux.reproduce.paper import text_figures as text
from datamux.reproduce.paper.figures import figure
from datamux.reproduce.paper.measured_figures import BY_CHANCE, SPREAD, TIMES
from datamux.reproduce.paper.verdict import NotRun, Verdict, Word, known, listed, rule, share, value
from datamux.reproduce.records import recorded, records_of

GUESSING = {"sst2": 50.2, "qqp": 51.0, "qnli": 50.5, "mnli": 35.4, "conll2003": 0.0}  # the most frequent class
SAYS = 5.0  # points above guessing: then a task says something at this scale
NOISE = 2.0  # points that differ between runs by themselves
TASK_NOISE = 3.0


def _rows(name: str) -> list[dict[str, object]]:
    return figure(name).rows()


def _drops(task: str, series: str, plain: str) -> dict[int, float]:
    """Points that a series loses against a plain model, by N."""
    rows, metric = _rows("tasks"), text.METRICS[task]
    base = value(rows, metric, plain, 1)
    return {n: base - score for n, score in known(rows, metric, series).items() if n > 1}


def _says_something(task: str) -> bool:
    best = max(value(_rows("tasks"), text.METRICS[task], plain, 1) for plain in (text.PLAIN, text.OUR_PLAIN))
    return best >= GUESSING[task] + SAYS


@rule
def task_drop(task: str, at_most: float) -> Verdict:
    if not _says_something(task):
        return Verdict(
            "cannot be tested here", "At this scale, and with this part of the data, the plain model guesses."
        )
    lost = _drops(task, text.PAPER, text.PLAIN)
    met = sum(points < at_most for points in lost.values())
    return Verdict(share(met, len(lost)), f"As the paper says, at the mini scale: {listed(lost)} points lost.")


@rule
def sentiment_at_40() -> Verdict:
    lost = _drops("sst2", "ours, 2L/512H, no warm-up", "plain, 2L/512H")
    if 40 not in lost:
        raise NotRun("SST-2 at N = 40")
    word: Word = "holds" if lost[40] <= 2 else "holds in part" if lost[40] <= 4 else "does not hold"
    return Verdict(word, f"Our best small model loses {lost[40]:.1f} points at N = 40 and {lost[20]:.1f} at N = 20.")


@rule
def easy_tasks() -> Verdict:
    told, met, parts = 0, 0, []
    for task in ("sst2", "qqp", "qnli"):
        if not _says_something(task):
            parts.append(f"{text.METRICS[task]}: the plain model guesses")
            continue
        lost = _drops(task, text.PAPER, text.PLAIN)
        told += 1
        met += max(lost.values()) <= TASK_NOISE
        parts.append(f"{text.METRICS[task]}: {listed(lost)} lost")
    return Verdict(share(met, told) if told else "cannot be tested here", "; ".join(parts) + ".")


@rule
def hard_tasks() -> Verdict:
    lost = _drops("conll2003", text.LARGER, "plain, 4L/256H")
    word: Word = "holds in part" if 5 <= max(lost.values()) <= 20 else "does not hold"  # one of two tasks, and N <= 20
    return Verdict(word, f"NER, four layers of 256: {listed(lost)} points of F1 lost. MNLI says little at our scales.")


@rule
def small_n() -> Verdict:
    gains, parts = [], []
    for task in ("sst2", "qqp", "conll2003"):
        lost = {n: -points for n, points in _drops(task, text.PAPER, text.PLAIN).items() if n <= 5}
        gains += [points > 0 for points in lost.values()]
        parts.append(f"{text.METRICS[task]}: {', '.join(f'{points:+.1f} at N = {n}' for n, points in lost.items())}")
    return Verdict(share(sum(gains), len(gains)), "; ".join(parts) + ".")


@rule
def ortho_or_hadamard() -> Verdict:
    rows, close, parts = _rows("tasks"), [], []
    for task in ("sst2", "conll2003", "qqp"):
        metric = text.METRICS[task]
        one, other = known(rows, metric, text.PAPER), known(rows, metric, text.ORTHO)
        apart = {n: one[n] - other[n] for n in one.keys() & other.keys()}
        close += [abs(points) <= TASK_NOISE for points in apart.values()]
        parts.append(f"{metric}: {', '.join(f'{p:+.1f} at N = {n}' for n, p in sorted(apart.items()))}")
    return Verdict(share(sum(close), len(close)), f"Hadamard minus Ortho: {'; '.join(parts)}.")


@rule
def retrieval() -> Verdict:
    rows = _rows("retrieval-accuracy")
    ours = known(rows, text.RETRIEVAL, text.LARGER)
    names = dict.fromkeys(str(row["series"]) for row in rows if str(row["series"]).endswith((", index", ", mlp")))
    paper = {name: known(rows, text.RETRIEVAL, name) for name in names}
    good = [name for name, found in paper.items() if found and min(found.values()) >= 97]
    reached = f"Ours, four layers of 256: {listed(ours, '%')}."
    if not paper:
        return Verdict("holds in part", f"{reached} The paper's own training was not run yet.")
    largest = max(SIZES)
    return Verdict(
        "holds" if len(good) == len(paper) else "holds in part",
        f"{reached} At the mini scale, with the paper's training, {len(good)} of {len(paper)} combinations reach 97% "
        f"up to N = {largest} ({120 // largest} dimensions per instance; the paper has 38 at N = 20).",
    )


@rule
def upper_bound() -> Verdict:
    retrieved = _rows("retrieval-accuracy")
    pairs = []
    for keys in ("hadamard", "ortho"):
        accuracy = known(retrieved, text.RETRIEVAL, f"{keys}, index")
        score = known(_rows("tasks"), text.METRICS["sst2"], text.PAPER if keys == "hadamard" else text.ORTHO)
        pairs += [(accuracy[n], score[n]) for n in accuracy.keys() & score.keys()]
    if len(pairs) < 4:
        raise NotRun("enough warm-ups with their tasks")
    poor = [score for accuracy, score in pairs if accuracy < 90]
    fine = [score for accuracy, score in pairs if accuracy >= 90]
    if not poor or not fine:
        return Verdict(
            "holds in part", "All warm-ups reached about the same accuracy, so that the bound was not tried."
        )
    word: Word = "holds" if fmean(poor) < fmean(fine) - NOISE else "does not hold"
    return Verdict(word, f"SST-2: {fmean(fine):.1f}% after warm-ups above 90%, {fmean(poor):.1f}% after others.")


@rule
def throughput() -> Verdict:
    found = {n: value(_rows("throughput"), TIMES, "12L/768H, index", n) for n in (20, 40)}
    met = (found[20] >= 11) + (found[40] >= 18)
    return Verdict(share(met, 2), f"On two CPU cores, with the paper's prefix: {listed(found, 'x')}.")


@rule
def prefix_cost() -> Verdict:
    rows = _rows("throughput")
    prefix, ours = (value(rows, TIMES, f"12L/768H, {name}", 40) for name in ("index", "gate"))
    word: Word = "holds" if prefix < 0.85 * ours else "does not hold"
    return Verdict(word, f"N = 40: {prefix:.1f}x with the prefix, {ours:.1f}x with a demultiplexer that needs none.")


@rule
def warmup_needed() -> Verdict:
    ablation = records_of("task-ablation")
    if not {"as-is", "no-warmup"} <= ablation.keys():
        raise NotRun("the ablation without a warm-up")
    warm, cold = (100 * ablation[name][0]["results"][-1]["score"] for name in ("as-is", "no-warmup"))
    word: Word = "does not hold" if cold > warm - NOISE else "holds"
    reason = (
        f"SST-2, 20 texts per pass, 600 steps: {cold:.1f}% without the warm-up, {warm:.1f}% with it, in our training"
    )
    return Verdict(word, f"{reason} (group sizes that grow, mean over tokens, a teacher).")


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


def _close(name: str, one: str, other: str, metrics: tuple[str, ...], allowed: float) -> tuple[int, int, str]:
    """At how many points two series are as good as each other, of how many, and all differences in words."""
    rows, met, total, parts = _rows(name), 0, 0, []
    for metric in metrics:
        first, second = known(rows, metric, one), known(rows, metric, other)
        apart = {n: second[n] - first[n] for n in sorted(first.keys() & second.keys())}
        met += sum(points >= -allowed for points in apart.values())
        total += len(apart)
        parts.append(f"{metric}: {', '.join(f'{points:+.1f} at N = {n}' for n, points in apart.items())}")
    if not total:
        raise NotRun(f"{other} beside {one}")
    return met, total, "; ".join(parts)


TASKS = (text.METRICS["sst2"], text.METRICS["conll2003"])


@rule
def heads() -> Verdict:
    met, total, apart = _close("heads", "six heads", "two heads", (text.RETRIEVAL, *TASKS), TASK_NOISE)
    return Verdict(share(met, total), f"Two heads minus six: {apart}.")


@rule
def smaller_models() -> Verdict:
    found = [_close("smaller-models", "3L/120H", name, TASKS, TASK_NOISE) for name in ("3L/60H", "1L/120H")]
    met, total = sum(part[0] for part in found), sum(part[1] for part in found)
    return Verdict(share(met, total), f"Half as wide: {found[0][2]}. A third as deep: {found[1][2]}.")


@rule
def smaller_throughput() -> Verdict:
    rows = _rows("throughput")
    found = {shape: value(rows, TIMES, f"{shape}, gate", 20) for shape in ("12L/384H", "4L/768H")}
    full = value(rows, TIMES, "12L/768H, index", 40)
    met = sum(times >= 25 for times in found.values()) + sum(times > full for times in found.values())
    shown = ", ".join(f"{shape}: {times:.0f}x" for shape, times in found.items())
    return Verdict(share(met, 4), f"N = 20 on two CPU cores: {shown}; the full model at N = 40: {full:.0f}x.")


@rule
def indices() -> Verdict:
    series, judged = "ours, 4L/256H, SST-2", []
    found, chance = known(_rows("indices"), SPREAD, series), known(_rows("indices"), BY_CHANCE, series)
    for n, apart in found.items():
        judged.append(f"{apart:.1f} at N = {n} (by chance: {chance[n]:.1f})")
    last = max(found)
    grows = found[last] > found[min(found)] + NOISE and found[last] > 1.5 * chance[last]
    reason = f"SST-2, best minus worst index, four layers of 256: {', '.join(judged)}"
    if grows:
        return Verdict("holds", f"{reason}.")
    return Verdict("does not hold", f"{reason}: no more than equal indices would show with so few rows.")


@rule
def robust() -> Verdict:
    from datamux.reproduce.anchors import NEAREST

    nearest = {str(row["series"]): float(str(row["value"])) for row in _rows("anchors") if row["metric"] == NEAREST}
    if not nearest:
        raise NotRun("the anchors")
    shown = ", ".join(f"{series}: {share_:.0f}%" for series, share_ in nearest.items())
    least = min(nearest.values())
    word: Word = "holds" if least >= 95 else "holds in part" if least >= 50 else "does not hold"
    audits = [r for name in ("audit/sentiment", "audit/ner") for r in recorded(EXPERIMENTS[name])]
    flips = max((row["flips"] for r in audits for row in r["results"] if row["part"] == "consistency"), default=0.0)
    if flips > 0.01 and word == "holds":
        word = "holds in part"
    return Verdict(
        word,
        f"The nearest of all representations is of the same text: {shown}."
        + (f" Up to {flips:.1%} of the answers of our packaged models change with the neighbours." if flips else ""),
    )


def _interference(series: str) -> dict[int, float]:
    from datamux.reproduce.construction import METRIC

    return known(_rows("theory"), METRIC, series)


@rule
def construction() -> Verdict:
    found = _interference("the construction")
    exact = max(found.values()) < 1e-6
    return Verdict("holds" if exact else "does not hold", f"Interference up to {max(found.values()):.0e} percent.")


@rule
def scores_average() -> Verdict:
    found = _interference("heads shared by all")
    return Verdict("holds" if min(found.values()) > 1 else "does not hold", f"Interference: {listed(found, '%')}.")


@rule
def existence_only() -> Verdict:
    free, keyed = _interference("unstructured weights"), _interference("overlapping subspaces")
    mixes = min(*free.values(), *keyed.values()) > 1
    return Verdict(
        "holds" if mixes else "does not hold",
        f"Weights without the structure mix the sequences ({listed(free, '%')}), and so do Hadamard keys "
        f"({listed(keyed, '%')}); trained models must do something else.",
    )


@rule
def seeds() -> Verdict:
    rows = [row for row in _rows("seeds") if int(str(row["seeds"])) >= 3]
    if not rows:
        raise NotRun("three seeds")
    spreads = [float(str(row["spread"])) for row in rows]
    word: Word = "holds" if max(spreads) <= 1.0 else "holds in part" if fmean(spreads) <= 1.0 else "does not hold"
    names = {str(row["series"]) for row in rows}
    if text.PAPER not in names and word == "holds":
        word = "holds in part"  # not tried in the paper's own setting
    numbers = f"{fmean(spreads):.1f} points in the mean, at most {max(spreads):.1f}"
    return Verdict(word, f"{len(rows)} points with three seeds ({', '.join(sorted(names))}): {numbers}.")


@rule
def learned_keys() -> Verdict:
    met, total, apart = _close("keys", "learned", "Gaussian", TASKS, TASK_NOISE)
    return Verdict(share(met, total), f"Gaussian minus learned: {apart}.")


@rule
def binary_keys() -> Verdict:
    rows = _rows("retrieval-accuracy")
    gaussian, binary = known(rows, text.RETRIEVAL, "hadamard, index"), known(rows, text.RETRIEVAL, "binary, index")
    last = max(gaussian.keys() & binary.keys())
    word: Word = "holds" if binary[last] < gaussian[last] - TASK_NOISE else "does not hold"
    return Verdict(word, f"Retrieval, binary: {listed(binary, '%')}; Gaussian: {listed(gaussian, '%')}.")


@rule
def mlp_demultiplexer() -> Verdict:
    met, total, apart = _close("mlp-demultiplexer", "MLP", "prefix", TASKS, 0.0)
    return Verdict(share(met, total), f"Prefix minus MLP: {apart}.")


@rule
def sizes() -> Verdict:
    rows, parts, met, total = _rows("sizes"), [], 0, 0
    for metric in TASKS:
        widths, layers = known(rows, metric, "3 layers, width"), known(rows, metric, "width 120, layers")
        if 120 not in widths or 60 not in widths or 1 not in layers:
            raise NotRun("the smaller plain models")
        lost = {"half the width": widths[120] - widths[60], "one layer": layers.get(3, widths[120]) - layers[1]}
        met += sum(points <= TASK_NOISE for points in lost.values())
        total += len(lost)
        parts.append(f"{metric}: " + ", ".join(f"{points:.1f} lost with {name}" for name, points in lost.items()))
    return Verdict(share(met, total), "; ".join(parts) + ".")


@rule
def memory() -> Verdict:
    found = known(_rows("memory-overhead"), "times the memory at N = 1", "index (the paper's)")
    word: Word = "holds" if 3 <= found[40] <= 5 else "does not hold"
    reason = "Memory hardly grows, because only the positions that the head reads are taken apart"
    return Verdict(word, f"{reason}: {listed(found, 'x')}.")
