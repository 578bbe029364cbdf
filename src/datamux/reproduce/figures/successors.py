"""The methods of the papers that followed, side by side: one table per task, and what is not run yet.

Every score is shown beside what it costs: how many layers of the encoder run for one text.
"""

from statistics import fmean, pstdev

from datamux.reproduce.catalogue.successors import CUT, METHODS, PLAIN, SIZES, TASKS, Method
from datamux.reproduce.records import Groups, Record, recorded_by_name
from datamux.reproduce.tables import TITLES, minutes, paragraphs, table

NOT_RUN = "not run yet"
ABOUT = paragraphs(
    "## The successors' methods",
    "Scores in percent at group size N, mean and spread over the seeds; in brackets the difference to the plain "
    "encoder. *Layers* is how many layers of the encoder run for one text: of six, a model that mixes after the second "
    "runs 2 + 4/N. On CoNLL-2003, the heads of the cut encoders see two tokens on either side, the other heads none. "
    "*Minutes* is the training time of all stages after the plain encoder.",
)


def successors_section(groups: Groups) -> list[str]:
    """All tables. `groups` may have any part of the records, or none."""
    lines = list(ABOUT)
    for task in TASKS:
        lines += [f"### {TITLES[task]}", "", *_task_table(task, groups), ""]
    lines += [*_calibration(groups), ""]
    missing = [f"`{task}-{name}-n{n}`" for task in TASKS for name in METHODS for n in SIZES
               if f"{task}-{name}-n{n}" not in groups]  # fmt: skip
    run = f"Not run yet: {len(missing)} of {len(TASKS) * len(METHODS) * len(SIZES)} experiments, such as "
    return lines + [run + f"{missing[0]} (`datamux reproduce successors --missing`)."] * bool(missing)


def _task_table(task: str, groups: Groups) -> list[str]:
    plain = recorded_by_name(f"{task}/{PLAIN}")
    best = _mean(plain, 1)
    rows = [["plain, all six layers", "", "everything", "6", "", *[_cell(plain, 1, None)] * 3]]
    for name in CUT:
        records = recorded_by_name(f"{task}/{name}")
        layers = name.split("-")[-2]
        rows.append([f"plain, cut to {layers}", "", "everything", layers, "", *[_cell(records, 1, best)] * 3])
    for name, method in METHODS.items():
        if not method.ensemble:
            found = {n: groups.get(f"{task}-{name}-n{n}", []) for n in SIZES}
            cells = [_cell(found[n], n, best) for n in SIZES]
            rows.append([method.title, method.paper, method.trains, _layers(found), _minutes(found), *cells])
    titles = ["method", "paper", "trained", "layers", "minutes", *(f"N = {n}" for n in SIZES)]
    return table(titles, rows)


def _cell(records: list[Record], k: int, plain: float | None) -> str:
    score = _mean(records, k)
    if score is None:
        return NOT_RUN
    spread = f" ± {pstdev(_scores(records, k)):.1f}" if len(records) > 1 else ""
    return f"{score:.1f}{spread}" + (f" ({score - plain:+.1f})" if plain is not None else "")


def _scores(records: list[Record], k: int, metric: str = "score") -> list[float]:
    rows = [row for record in records for row in record["results"] if row["group_size"] == k]
    values = [row["score"] if metric == "score" else row["other"].get(metric) for row in rows]
    return [100 * value for value in values if value is not None]


def _mean(records: list[Record], k: int, metric: str = "score") -> float | None:
    found = _scores(records, k, metric)
    return fmean(found) if found else None


def _layers(found: dict[int, list[Record]]) -> str:
    """Layers per text at each N, such as "4, 3, 2.5"."""
    shown = []
    for n, records in found.items():
        if records:
            lower, layers = records[0]["recipe"]["model"]["mux_layer"], records[0]["encoder"]["layers"]
            shown.append(f"{lower + (layers - lower) / n:.3g}")
    return ", ".join(shown)


def _minutes(found: dict[int, list[Record]]) -> str:
    """Training time, without that of the plain encoder, which comes first in the record."""
    spent = [minutes({**r, "training": _own_stages(r)}) for records in found.values() for r in records]
    return f"{fmean(spent):.0f}" if spent else ""


def _own_stages(record: Record) -> list[Record]:
    stages: list[Record] = record["training"]
    own = sum(bool(record["recipe"].get(name, {}).get("steps")) for name in ("warmup", "pretrain", "task"))
    return stages[-own:]


def _calibration(groups: Groups) -> list[str]:
    """Ensembling: one text in every slot costs one pass, so it is compared with the plain encoder."""
    rows = []
    name, method = _ensemble()
    for task in TASKS:
        cells = [_both(groups.get(f"{task}-plain") or recorded_by_name(f"{task}/{PLAIN}"))]
        cells += [_both(groups.get(f"{task}-{name}-n{n}", [])) for n in SIZES]
        rows.append([TITLES[task], *cells])
    about = paragraphs(
        f"### An ensemble in one network ({method.paper})",
        "One text in every slot and the mean of its answers, beside the plain encoder, which costs the same: the "
        "score, and the expected calibration error (ECE, in percent; less is better).",
    )
    return [*about, *table(["task", "plain", *(f"N = {n}" for n in SIZES)], rows)]


def _ensemble() -> tuple[str, Method]:
    return next((name, method) for name, method in METHODS.items() if method.ensemble)


def _both(records: list[Record]) -> str:
    score, error = _mean(records, 1), _mean(records, 1, "ece")
    if score is None:
        return NOT_RUN
    return f"{score:.1f}, ECE " + (f"{error:.1f}" if error is not None else "not measured")
