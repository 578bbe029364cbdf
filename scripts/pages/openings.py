"""How pages open: the result in a sentence, a picture, and what the picture shows. From records only."""

from statistics import fmean

from datamux.reproduce.figures.quality import scores, short_table
from datamux.reproduce.records import committed, records_of
from datamux.reproduce.tables import minutes

HOW_TO_READ = "Up is more accurate, to the right is faster; a number at a point says how many texts shared a pass."


def results_opening() -> list[str]:
    """docs/results.md: sentiment, everything that answers it."""
    frontier, models = committed("frontier/sst2"), records_of("sst2")
    plain, mixed = scores(models["scratch-plain"])[1], scores(models["scratch-n20"])[20]
    best = [row for row in frontier["results"] if row["best"]]
    mixing = sum(row["group_size"] > 1 for row in best)
    return [
        f"A mixed model of four layers answers 20 sentences per pass and scores {fmean(mixed):.1f}% on SST-2, where "
        f"the plain model, one sentence per pass, scores {fmean(plain):.1f}%. Smaller plain models are the rivals to "
        f"beat: of the {len(best)} settings that nothing else beats (circled), {mixing or 'none'} "
        f"{'mixes' if mixing < 2 else 'mix'} texts.",
        "",
        "![Accuracy against throughput on SST-2](frontier-sst2.png)",
        "",
        f"{HOW_TO_READ} {frontier['recommendation']['line']}",
        "",
        "In short, accuracy on SST-2 in percent, at k texts per pass:",
        "",
        *short_table("sst2"),
    ]


def choose_n_opening() -> list[str]:
    """docs/guides/choose-n.md: one checkpoint at every group size."""
    rows = committed("distilled-frontier/sst2")["results"]
    costs = [
        f"{row['group_size']} texts per pass are {row['ratio']:.1f} times as fast and cost {row['drop']:.1f} points"
        for row in rows
        if row["model"] == "4 layers, mixed" and row["group_size"] in (5, 20)
    ]
    return [
        f"One checkpoint serves every group size. On SST-2, compared with a plain model of the same size: "
        f"{'; '.join(costs)}.",
        "",
        "![Accuracy against throughput of small models on SST-2](../frontier-distilled-sst2.png)",
        "",
        f"{HOW_TO_READ} Look at the smaller plain models too: a circle marks what nothing else beats, and on this task "
        "that is not the mixed model.",
    ]


def inference_opening() -> list[str]:
    """docs/inference.md: the speed of a packaged model."""
    record = committed("speed/sst2-texts-sentiment")
    fastest = max(record["results"], key=lambda row: row["group_size"])
    return [
        f"On {record['hardware']['cores']} CPU cores, the packaged model `sentiment` answers {fastest['rate']:,.0f} "
        f"texts per second when {fastest['group_size']} share a pass, {fastest['ratio']:.1f} times as many as a plain "
        "model with the same layers.",
        "",
        "![Throughput of the packaged model against texts per pass](speed-sst2-texts-sentiment.png)",
        "",
        "The dotted line is the limit: N times the plain model. Stars are what the paper reports for its GPU.",
    ]


def training_opening() -> list[str]:
    """docs/training.md: what a training on two cores takes, and gives."""
    plain, mixed = (records_of("sst2")[name] for name in ("scratch-plain", "scratch-n20"))
    spent, alone = (fmean(minutes(record) for record in records) for records in (mixed, plain))
    return [
        f"On {mixed[0]['hardware']['cores']} CPU cores, the warm-up and SST-2 take {spent:.0f} minutes together. The "
        f"model then scores {fmean(scores(mixed)[20]):.1f}% at 20 texts per pass; the plain one, which takes "
        f"{alone:.0f} minutes, scores {fmean(scores(plain)[1]):.1f}%.",
        "",
        "![How fast the group size grows in the warm-up](growth.png)",
        "",
        "The warm-up starts with two instances per pass, and takes more as soon as the model copes. Each line is one "
        "warm-up: of n = 20, of n = 40, and of n = 40 in a wider network.",
    ]
