"""What we set out to reach, and what the records say: one table for quality, one for speed."""

from statistics import fmean

from datamux.evaluate.records import read_record
from pages.common import RESULTS, missed
from pages.quality import rows_of, scores

RETRIEVAL = {"scratch-n20": {10: 99.5, 20: 99.0}, "scratch-n40-2l-512h-more": {20: 99.0, 40: 97.0}}
SENTIMENT = {1: 0.5, 2: 0.5, 5: 0.5, 10: 1.0, 20: 2.0}
TAGS = {5: 2.0, 10: 5.0, 20: 10.0}
PRETRAINED = {2: 1.0, 5: 3.0, 10: 6.0}
# Task, multiplexed model, the plain one it is compared with, and the points that each group size may cost.
DROPS = (
    ("sst2", "scratch-n20", "scratch-plain", SENTIMENT),
    ("sst2", "taught-n20", "taught-plain", SENTIMENT),
    ("sst2", "scratch-n40", "scratch-plain", {40: 3.0}),
    ("sst2", "scratch-n40-cold-2l-512h", "scratch-plain-2l-512h", SENTIMENT | {40: 3.0}),
    ("sst2", "scratch-n40-cold-2l-512h", "scratch-plain", SENTIMENT | {40: 3.0}),
    ("sst2", "scratch-n40-cold-2l-512h", "scratch-plain-2l-512h-untaught", SENTIMENT | {40: 3.0}),
    ("sst2", "scratch-n20", "scratch-n20-alone", {20: 1.0}),
    ("sst2", "scratch-n20", "scratch-n5-alone", {5: 1.0}),
    ("conll2003", "scratch-n20", "scratch-plain", TAGS),
    ("conll2003", "scratch-n20-masked-words-3000-steps", "scratch-plain", TAGS),
    ("conll2003", "taught-n20", "scratch-plain", TAGS),
    ("conll2003", "taught-n20", "scratch-plain-3000-steps", TAGS),
    ("conll2003", "taught-n20", "taught-plain-task-rows", TAGS),
    ("conll2003", "taught-n20", "taught-plain", TAGS),
    *((task, "scratch-n20", "scratch-plain", SENTIMENT) for task in ("qqp", "qnli", "mnli")),
    *(
        (task, "minilm-n10-mux-layer-2", "minilm-plain-6-layers", PRETRAINED)
        for task in ("sst2", "banking77", "conll2003", "qqp")
    ),
)
GUESSING = {"qnli": 53.0, "mnli": 36.3}  # three points above what guessing gives
SPEED = {
    "12l-768h-128-tokens": {2: 1.95, 10: 9.7, 20: 19, 40: 38},
    "12l-384h-128-tokens": {2: 1.95, 10: 9.7, 20: 19, 40: 37},
    "4l-768h-128-tokens": {2: 1.95, 10: 9.7, 20: 19, 40: 37},
    "4l-256h-32-tokens": {2: 1.9, 10: 9.3, 20: 18, 40: 34},
    "4l-256h-32-tokens-as-trained": {2: 1.9, 10: 9.3, 20: 18, 40: 34},
    "sst2-texts-new-4l-256h": {2: 1.8, 10: 8, 20: 14, 40: 22},
    "sst2-texts-sentiment": {2: 1.8, 10: 8, 20: 14},
    "sst2-texts-4l-256h": {2: 1.8, 10: 8, 20: 14, 40: 22},
    "tagging-12l-768h-128-tokens": {20: 15},
}


def quality_aims() -> list[str]:
    """Aim by aim: met, or missed by how much. What was tried and why we think it is missed is in the log."""
    lines = [
        "## What we aimed at: quality",
        "",
        "Points lost against the plain model that is named, mean over the seeds. `taught` models have a pretrained",
        "teacher, and texts that it labelled; of the taggers, only `taught-plain` has these, so that it had more to",
        "learn from than what it is compared with; `taught-plain-task-rows` had the same rows. Why an aim is missed,",
        "what was tried and what was not: [Aims](aims.md).",
        "",
        "| task | model | compared with | k | aim | measured | |",
        "|---|---|---|---|---|---|---|",
    ]
    retrieved = rows_of("wikipedia_en")
    for name, aims in RETRIEVAL.items():
        for k, aim in aims.items():
            if name in retrieved:
                found = fmean(scores(retrieved[name])[k])
                lines.append(
                    f"| retrieval | {name} | | {k} | at least {aim:g}% | {found:.2f}% | {missed(aim - found, 2)} |"
                )
    for task, name, base, aims in DROPS:
        rows = rows_of(task)
        if name not in rows or base not in rows:
            continue
        ours, theirs = scores(rows[name]), scores(rows[base])
        for k, aim in aims.items():
            lost = fmean(theirs.get(k, theirs.get(1, []))) - fmean(ours[k])
            guesses = 1 in theirs and fmean(theirs[1]) < GUESSING.get(task, 0.0)
            verdict = "says nothing: the plain one guesses" if guesses else missed(lost - aim, 1)
            found = f"at most {aim:g} lost | {lost:.1f} lost | {verdict}"
            lines.append(f"| {task} | {name} | {base} | {k} | {found} |")
    return [*lines, ""]


def speed_aims() -> list[str]:
    """The same for throughput against the plain model, and for memory."""
    lines = [
        "### What we aimed at: speed",
        "",
        "Times the plain model's throughput, ours (`gate`), same engine. N times is the limit: a ratio above it shows",
        "how far timings wander on this machine, and says no more than `about N`. Token ids are timed with a",
        "demultiplexer twice as wide as the encoder; `as-trained` and texts with the one that the recipes train.",
        "",
        "| | k | aim | measured (lowest to highest) | |",
        "|---|---|---|---|---|",
    ]
    for name, aims in SPEED.items():
        file = RESULTS / "speed" / f"{name}.json"
        rows = read_record(file)["results"] if file.exists() else []
        for row in rows:
            if row["group_size"] in aims and row["name"].startswith("gate"):
                aim, found = aims[row["group_size"]], row["ratio"]
                spread = f"{found:.2f}x ({row['lowest']:.2f} to {row['highest']:.2f})"
                verdict = "about N" if found > row["group_size"] else missed(100 * (1 - found / aim), 1, "%")
                lines.append(f"| {name} | {row['group_size']} | {aim:g}x | {spread} | {verdict} |")
    file = RESULTS / "speed" / "memory-12l-768h.json"
    if file.exists():
        (row,) = [row for row in read_record(file)["results"] if row["group_size"] == 40]
        verdict = missed(100 * (row["ratio"] / 1.3 - 1), 0, "%")
        lines.append(f"| memory, 12L/768H | 40 | at most 1.3x | {row['ratio']:.2f}x | {verdict} |")
    return [*lines, ""]
