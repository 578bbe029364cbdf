"""The methods of the papers that followed, side by side: one table per task, and what is not run yet.

Every score is shown beside what it costs: how many layers of the encoder would multiply as much for one text.
"""

from statistics import fmean, pstdev

from datamux.reproduce.catalogue.successors import CUT, ENSEMBLE, METHODS, PLAIN, SIZES, SUCCESSORS, TASKS
from datamux.reproduce.multiplications import layers_per_text
from datamux.reproduce.records import Groups, Record, recorded_by_name
from datamux.reproduce.tables import TITLES, minutes, paragraphs, table

NOT_RUN = "not run yet"
WITH_RECORD = [experiment.name for experiment in SUCCESSORS if experiment.has_record]
FORMER_CUT = (3, 2)  # layers of cut encoders that were trained for other tables
ABOUT = paragraphs(
    "## The successors' methods",
    "Scores in percent at group size N, mean and spread over the seeds; in brackets the difference to the plain "
    "encoder. *Layers* is what one text costs at N = 2, 4 and 8: how many layers of the encoder multiply as much as "
    "the whole model does, demultiplexer included. *Alone* is the score of the same models at group size 1. "
    "*Minutes* is the training time of all stages after the plain encoder.",
    "All methods and all cut encoders train for 600 steps of 64 rows (CoNLL-2003: 48) from the same fine-tuned "
    "encoder, which has one seed: the spread is over the seeds of what follows. The encoder is also their teacher, "
    "except for MUX-PLM, which starts from the encoder before its fine-tuning and has two stages more. The rows marked "
    "*1,200 steps* are older: one seed, trained from the encoder before its fine-tuning, and on CoNLL-2003 with a head "
    "that sees two tokens on either side, which no other head does.",
)


def successors_section(groups: Groups) -> list[str]:
    """All tables. `groups` may have any part of the records, or none."""
    lines = list(ABOUT)
    for task in TASKS:
        lines += [f"### {TITLES[task]}", "", *_task_table(task, groups), ""]
    lines += [*_calibration(groups), ""]
    missing = [f"`{name}`" for name in WITH_RECORD if name not in groups]
    run = f"Not run yet: {len(missing)} of {len(WITH_RECORD)} experiments, such as "
    return lines + [run + f"{missing[0]} (`datamux reproduce successors --missing`)."] * bool(missing)


def _task_table(task: str, groups: Groups) -> list[str]:
    plain = _plain_records(task, groups)
    best = _mean(plain, 1)
    rows = [["plain, all six layers", "", "everything", "6", "", "", *[_cell(plain, 1, None)] * len(SIZES)]]
    cut = {f"plain, cut to {layers}": (layers, groups.get(f"{task}-cut-{layers}", [])) for layers in CUT}
    former = {layers: recorded_by_name(f"{task}/minilm-plain-{layers}-layers") for layers in FORMER_CUT}
    cut |= {f"plain, cut to {layers}, 1,200 steps": (layers, found) for layers, found in former.items()}
    for title, (layers, records) in cut.items():
        spent = _minutes(records)
        rows.append([title, "", "everything", str(layers), spent, "", *[_cell(records, 1, best)] * len(SIZES)])
    for name, method in METHODS.items():
        if not method.ensemble:
            found = {n: groups.get(f"{task}-{name}-n{n}", []) for n in SIZES}
            spent = _minutes([record for records in found.values() for record in records])
            cells = [_cell(found[n], n, best) for n in SIZES]
            rows.append([method.title, method.paper, method.trains, _layers(task, found), spent, _alone(found), *cells])
    titles = ["method", "paper", "trained", "layers", "minutes", "alone", *(f"N = {n}" for n in SIZES)]
    return table(titles, rows)


def _plain_records(task: str, groups: Groups) -> list[Record]:
    """The plain encoder that the methods started from; until it was scored again, its first record."""
    return groups.get(f"{task}-plain") or recorded_by_name(f"{task}/{PLAIN}")


def _cell(records: list[Record], k: int, plain: float | None) -> str:
    score = _mean(records, k)
    if score is None:
        return NOT_RUN
    return _with_spread(_scores(records, k)) + (f" ({score - plain:+.1f})" if plain is not None else "")


def _with_spread(values: list[float]) -> str:
    return f"{fmean(values):.1f}" + (f" ± {pstdev(values):.1f}" if len(values) > 1 else "")


def _scores(records: list[Record], k: int, metric: str = "score") -> list[float]:
    rows = [row for record in records for row in record["results"] if row["group_size"] == k]
    values = [row["score"] if metric == "score" else row["other"].get(metric) for row in rows]
    return [100 * value for value in values if value is not None]


def _mean(records: list[Record], k: int, metric: str = "score") -> float | None:
    found = _scores(records, k, metric)
    return fmean(found) if found else None


def _layers(task: str, found: dict[int, list[Record]]) -> str:
    """The cost of a text at each N, such as "5.1, 3.9, 3.4"."""
    kind = "token" if task == "conll2003" else "sequence"
    return ", ".join(f"{layers_per_text(records[0], kind):.1f}" for records in found.values() if records)


def _alone(found: dict[int, list[Record]]) -> str:
    """The score of a single text at each N."""
    return ", ".join(f"{score:.1f}" for records in found.values() if (score := _mean(records, 1)) is not None)


def _minutes(records: list[Record]) -> str:
    """Training time, without that of the plain encoder, which comes first in the record."""
    spent = [minutes({**record, "training": _own_stages(record)}) for record in records]
    return f"{fmean(spent):.0f}" if spent else ""


def _own_stages(record: Record) -> list[Record]:
    *before, last = record["training"]
    return [*(stage for stage in before if stage["stage"] != "task"), last]


def _calibration(groups: Groups) -> list[str]:
    """Ensembling: one text in every slot costs one pass, so it is compared with the plain encoder."""
    rows = []
    for task in TASKS:
        cells = [_both(_plain_records(task, groups)), _both(groups.get(f"{task}-plain-longer", []))]
        cells += [_both(groups.get(f"{task}-{ENSEMBLE}-n{n}", [])) for n in SIZES]
        rows.append([TITLES[task], *cells])
    about = paragraphs(
        f"### An ensemble in one network ({METHODS[ENSEMBLE].paper})",
        "One text in every slot and the mean of its answers, beside the plain encoder, which costs the same: the "
        "score, and the expected calibration error (ECE, in percent; less is better). *Plain, trained longer* is the "
        "plain encoder after the same 600 steps more with the same teacher, because these change the calibration, too.",
    )
    return [*about, *table(["task", "plain", "plain, trained longer", *(f"N = {n}" for n in SIZES)], rows)]


def _both(records: list[Record]) -> str:
    if _mean(records, 1) is None:
        return NOT_RUN
    errors = _scores(records, 1, "ece")
    return f"{_with_spread(_scores(records, 1))}, ECE " + (_with_spread(errors) if errors else "not measured")
