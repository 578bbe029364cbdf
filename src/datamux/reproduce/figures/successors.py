"""The methods of the papers that followed, side by side: one table per task, and what is not run yet.

Every score is shown beside what it costs: how many layers of the encoder would multiply as much for one text.
"""

from collections.abc import Callable
from statistics import fmean

from datamux.reproduce.catalogue.successors import (
    CUT,
    ENSEMBLE,
    METHODS,
    PLAIN,
    ROWS,
    SEEDS,
    SIZES,
    STEPS,
    SUCCESSORS,
    TASKS,
)
from datamux.reproduce.multiplications import layers_per_text
from datamux.reproduce.records import Groups, Record, recorded_by_name
from datamux.reproduce.spread import spread_of
from datamux.reproduce.tables import TITLES, minutes, paragraphs, table

NOT_RUN = "not run yet"
HOLE = "-"  # among the values for each N, where there is no record
RUNS = [(experiment.name, seed) for experiment in SUCCESSORS if experiment.has_record for seed in experiment.seeds]
FORMER_CUT = (3, 2)  # layers of cut encoders that were trained for other tables
ABOUT = paragraphs(
    "## The successors' methods",
    "Scores in percent at group size N, mean and spread over the seeds; in brackets the difference to the plain "
    "encoder. *Layers* is what one text costs: how many layers of the encoder multiply as much as the whole model "
    "does, demultiplexer included. *Alone* is the score of the same models at group size 1. *Minutes* is the training "
    "time of all stages after the plain encoder. These three have one value for each of N = 2, 4 and 8, a hyphen "
    "where nothing was run yet. A cell with fewer seeds than the others says how many it has.",
    f"All methods and all cut encoders train for {STEPS} steps of {ROWS['sst2']} rows (CoNLL-2003: "
    f"{ROWS['conll2003']}) from the same fine-tuned encoder, which has one seed: the spread (the sample's standard "
    "deviation) is over the seeds of what follows. The encoder is also their teacher, "
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
    missing = [(name, seed) for name, seed in RUNS if seed not in {record["seed"] for record in groups.get(name, [])}]
    if not missing:
        return lines
    name, seed = missing[0]
    run = f"Not run yet: {len(missing)} of {len(RUNS)} runs (experiments and their seeds), such as `{name}` with seed "
    return [*lines, f"{run}{seed} (`datamux reproduce successors --missing`)."]


def _task_table(task: str, groups: Groups) -> list[str]:
    plain = _plain_records(task, groups)
    best = _mean(plain, 1)
    rows = [["plain, all six layers", "", "everything", "6", "", "", *[_cell(plain, 1, None, 1)] * len(SIZES)]]
    cut = {f"plain, cut to {layers}": (layers, groups.get(f"{task}-cut-{layers}", [])) for layers in CUT}
    former = {layers: recorded_by_name(f"{task}/minilm-plain-{layers}-layers") for layers in FORMER_CUT}
    cut |= {f"plain, cut to {layers}, 1,200 steps": (layers, found) for layers, found in former.items()}
    for title, (layers, records) in cut.items():
        spent, seeds = _minutes(records), 1 if records is former.get(layers) else len(SEEDS)
        rows.append([title, "", "everything", str(layers), spent, "", *[_cell(records, 1, best, seeds)] * len(SIZES)])
    for name, method in METHODS.items():
        if not method.ensemble:
            found = {n: groups.get(f"{task}-{name}-n{n}", []) for n in SIZES}
            costs = [_each(found, of) for of in (_layers_of(task), _minutes, _alone)]
            cells = [_cell(found[n], n, best) for n in SIZES]
            rows.append([method.title, method.paper, method.trains, *costs, *cells])
    titles = ["method", "paper", "trained", "layers", "minutes", "alone", *(f"N = {n}" for n in SIZES)]
    return table(titles, rows)


def _plain_records(task: str, groups: Groups) -> list[Record]:
    """The plain encoder that the methods started from; until it was scored again, its first record."""
    return groups.get(f"{task}-plain") or recorded_by_name(f"{task}/{PLAIN}")


def _cell(records: list[Record], k: int, plain: float | None, seeds: int = len(SEEDS)) -> str:
    """The scores at group size k; `seeds` is how many there should be."""
    score = _mean(records, k)
    if score is None:
        return NOT_RUN
    difference = f" ({score - plain:+.1f})" if plain is not None else ""
    return _with_spread(_scores(records, k)) + difference + _if_fewer(records, seeds)


def _if_fewer(records: list[Record], seeds: int) -> str:
    return f" ({len(records)} seed{'s' * (len(records) > 1)})" if len(records) < seeds else ""


def _with_spread(values: list[float]) -> str:
    return f"{fmean(values):.1f}" + (f" ± {spread_of(values):.1f}" if len(values) > 1 else "")


def _scores(records: list[Record], k: int, metric: str = "score") -> list[float]:
    rows = [row for record in records for row in record["results"] if row["group_size"] == k]
    values = [row["score"] if metric == "score" else row["other"].get(metric) for row in rows]
    return [100 * value for value in values if value is not None]


def _mean(records: list[Record], k: int, metric: str = "score") -> float | None:
    found = _scores(records, k, metric)
    return fmean(found) if found else None


def _each(found: dict[int, list[Record]], of: Callable[[list[Record]], str]) -> str:
    """One value for each N, such as "5.1, -, 3.4"; nothing if there is no record at all."""
    return ", ".join(of(records) or HOLE for records in found.values()) if any(found.values()) else ""


def _layers_of(task: str) -> Callable[[list[Record]], str]:
    """What a text costs."""
    return lambda records: f"{_layers(task, records[0]):.1f}" if records else ""


def _layers(task: str, record: Record) -> float:
    return layers_per_text(record, "token" if task == "conll2003" else "sequence")


def _alone(records: list[Record]) -> str:
    """The score of a single text."""
    score = _mean(records, 1)
    return "" if score is None else f"{score:.1f}"


def _minutes(records: list[Record]) -> str:
    """Training time, without that of the plain encoder, which comes first in the record."""
    spent = [minutes({**record, "training": _own_stages(record)}) for record in records]
    return f"{fmean(spent):.0f}" if spent else ""


def _own_stages(record: Record) -> list[Record]:
    *before, last = record["training"]
    return [*(stage for stage in before if stage["stage"] != "task"), last]


def _calibration(groups: Groups) -> list[str]:
    """Ensembling: one text in every slot costs one pass and N answers, beside the plain encoder."""
    rows = []
    for task in TASKS:
        cells = [_both(_plain_records(task, groups), 1), _both(groups.get(f"{task}-plain-longer", []))]
        cells += [_ensemble(task, groups.get(f"{task}-{ENSEMBLE}-n{n}", [])) for n in SIZES]
        rows.append([TITLES[task], *cells])
    about = paragraphs(
        f"### An ensemble in one network ({METHODS[ENSEMBLE].paper})",
        "One text in every slot and the mean of its answers, beside the plain encoder: the score, and the expected "
        "calibration error (ECE, in percent; less is better). *Layers* is what one answer costs, 6 for the plain "
        "encoder: the pass costs the same, and taking the answers apart comes on top. *Plain, trained longer* is the "
        f"plain encoder after the same {STEPS} steps more, of as many rows, with the same teacher, because these "
        "change the calibration, too. The mean is over logits; the paper's, over probabilities, has another ECE.",
    )
    return [*about, *table(["task", "plain", "plain, trained longer", *(f"N = {n}" for n in SIZES)], rows)]


def _ensemble(task: str, records: list[Record]) -> str:
    """One text fills every slot, so an answer costs what N texts cost."""
    if not records:
        return NOT_RUN
    layers = _layers(task, records[0]) * records[0]["recipe"]["model"]["num_instances"]
    return f"{_both(records)}, {layers:.1f} layers"


def _both(records: list[Record], seeds: int = len(SEEDS)) -> str:
    if _mean(records, 1) is None:
        return NOT_RUN
    errors = _scores(records, 1, "ece")
    score = _with_spread(_scores(records, 1)) + _if_fewer(records, seeds)
    return f"{score}, ECE " + (_with_spread(errors) if errors else "not measured")
