"""Throughput and memory (R3 and the appendix), and the question of equal cost, which the paper does not ask."""

from datamux.reproduce.catalogue.mini import EQUAL_COST
from datamux.reproduce.paper import text_figures as text
from datamux.reproduce.paper.measured_figures import TIMES
from datamux.reproduce.paper.rules.reading import NOISE, TASK_METRICS, compared, pairs_of, rows_of
from datamux.reproduce.paper.verdict import Verdict, Word, at_most_in_part, known, listed, rule, share, value

FULL = "12L/768H"
OVER_1800_PERCENT = 18  # times the speed, on top of it


@rule
def throughput() -> Verdict:
    found = known(rows_of("throughput"), TIMES, f"{FULL}, index", (20, 40))
    met = (found[20] >= 11) + (found[40] >= 18)
    return Verdict(share(met, 2), f"On two CPU cores, with the paper's prefix: {listed(found, 'x')}.")


@rule
def draft_speed() -> Verdict:
    """Of a draft of the abstract. It can hold only in part: one shape is timed, and there is no seventh task."""
    times = value(rows_of("throughput"), TIMES, f"{FULL}, index", 40)
    word: Word = at_most_in_part("holds") if times > 1 + OVER_1800_PERCENT else "does not hold"
    return Verdict(
        word,
        f"1,800% more is {1 + OVER_1800_PERCENT}x. On two CPU cores it is {times:.1f}x at N = 40, with the paper's "
        "prefix and 128 tokens, whatever the task. The paper itself shows six tasks: SST-2, QQP, MNLI, QNLI, names in "
        "news and MNIST.",
    )


@rule
def prefix_cost() -> Verdict:
    rows = rows_of("throughput")
    prefix, ours = (value(rows, TIMES, f"{FULL}, {name}", 40) for name in ("index", "gate"))
    word: Word = "holds" if prefix < 0.85 * ours else "does not hold"
    return Verdict(word, f"N = 40: {prefix:.1f}x with the prefix, {ours:.1f}x with a demultiplexer that needs none.")


@rule
def smaller_throughput() -> Verdict:
    """All with the same demultiplexer: the paper's, or ours as long as the paper's was not timed in smaller models."""
    rows, shapes = rows_of("throughput"), ("12L/384H", "4L/768H")
    series = {str(row["series"]) for row in rows}
    paper = all(f"{shape}, index" in series for shape in shapes)
    kind = "index" if paper else "gate"
    found = {shape: value(rows, TIMES, f"{shape}, {kind}", 20) for shape in shapes}
    full = value(rows, TIMES, f"{FULL}, {kind}", 40)
    met = sum(times >= 25 for times in found.values()) + sum(times > full for times in found.values())
    shown = ", ".join(f"{shape}: {times:.0f}x" for shape, times in found.items())
    because = f"N = 20 on two CPU cores: {shown}; the full model at N = 40: {full:.0f}x."
    if paper:
        return Verdict(share(met, 4), because)
    return Verdict(
        at_most_in_part(share(met, 4)),
        f"{because} All with our demultiplexer, which has no prefix: the paper's was not timed in these shapes.",
    )


@rule
def memory() -> Verdict:
    series = "index (the paper's)"
    found = known(rows_of("memory-overhead"), "times the memory at N = 1", series, (1, 2, 10, 20, 40))
    word: Word = "holds" if 3 <= found[40] <= 5 else "does not hold"
    reason = "Memory hardly grows, because only the positions that the head reads are taken apart"
    return Verdict(word, f"{reason}: {listed(found, 'x')}.")


@rule
def equal_cost() -> Verdict:
    return compared(
        pairs_of("equal-cost", text.AS_CHEAP, text.MIXED, TASK_METRICS, tuple(EQUAL_COST)),
        lambda told: share(sum(pair.apart > NOISE for pair in told), len(told)),
        "Mixed minus narrow and plain",
    )
