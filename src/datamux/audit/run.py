"""`datamux audit`: all questions about one model, as a record with a headline and three sentences of advice."""

from collections.abc import Callable, Sequence
from typing import Any

from datamux.audit.advice import advice_of, headline_of
from datamux.audit.consistency import consistency
from datamux.audit.leakage import leakage
from datamux.audit.slots import mixture_read, position
from datamux.audit.subject import Subject, load_subject
from datamux.audit.worst_case import worst_case
from datamux.evaluate.evaluate_model import default_sizes
from datamux.evaluate.records import make_record

QUICK = {"texts": 40, "draws": 4, "targets": 10, "tries": 32, "groups": 200}
USUAL = {"texts": 200, "draws": 10, "targets": 40, "tries": 160, "groups": 1500}


def audit_model(
    name: str,
    task: str,
    *,
    splits: Sequence[str] = ("validation",),
    group_sizes: Sequence[int] = (),
    quick: bool = False,
    seed: int = 0,
    tell: Callable[[str], None] = lambda text: None,
    **where: Any,
) -> dict[str, Any]:
    """Audit a model on a task or a file; `where` goes to `load_subject`. `quick` asks about fewer texts."""
    subject = load_subject(name, task, splits=tuple(splits), **where)
    sizes = [k for k in group_sizes or default_sizes(subject.num_instances) if k > 1]
    if not sizes:
        raise ValueError("an audit is about neighbours: choose a group size of 2 or more with -k")
    for k in sizes:
        if k > subject.num_instances:
            raise ValueError(f"group size {k} is more than the model's {subject.num_instances} slots")
    counts = QUICK if quick else USUAL
    results = list(_answers(subject, sorted(sizes), counts, seed, tell))
    return make_record(
        "audit",
        recipe=None,
        model=str(name),
        task=task,
        splits=list(splits),
        rows=len(subject.rows),
        settings={**counts, "seed": seed},
        headline=headline_of(results),
        advice=advice_of(results),
        results=results,
    )


def _answers(subject: Subject, sizes: list[int], counts: dict[str, int], seed: int, tell: Callable[[str], None]) -> Any:
    for k in sizes:
        tell(f"consistency at {k} texts per pass")
        yield consistency(subject, k, texts=counts["texts"], draws=counts["draws"], seed=seed)
        tell(f"position at {k} texts per pass")
        yield position(subject, k)
    for k in sorted({sizes[0], sizes[-1]}):
        tell(f"worst case at {k} texts per pass")
        yield worst_case(subject, k, texts=counts["targets"], tries=counts["tries"], seed=seed)
        tell(f"leakage at {k} texts per pass")
        yield leakage(subject, k, groups=counts["groups"], seed=seed)
    tell(f"is the mixture read at {sizes[-1]} texts per pass")
    yield mixture_read(subject, sizes[-1])
