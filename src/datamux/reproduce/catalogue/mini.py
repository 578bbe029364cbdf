"""The paper's text figures at the mini scale: 3 layers of 120, texts of at most 48 tokens, minutes per training.

Three series: "published" starts the task with a new demultiplexer, as the published code does; "paper" trains as the
paper's text says; "ours" has our parts and training, and one checkpoint for every group size. The paper's smaller
models are half as wide or a third as deep; so are those here.
"""

from typing import Any

from datamux.reproduce.experiment import Experiment

SIZES = (2, 5, 10)  # 60, 24 and 12 dimensions per instance; the paper's N = 20 and 40 have 38 and 19
LONGEST_TEXT = {"sst2": 32, "conll2003": 40, "qqp": 40, "mnli": 48, "qnli": 48}  # in tokens
STEPS = {"qqp": 1000, "mnli": 1000}  # pairs take longer to say anything
EQUAL_COST = {4: 60, 9: 40, 16: 30}  # texts per pass -> the width of a plain network that costs as much per text
TOKENIZER = {"model.tokenizer": "{mini-retrieval/plain}"}
KEYS: dict[str, dict[str, Any]] = {
    "hadamard": {},
    "ortho": {"model.multiplexer": "ortho"},
    "learned": {"model.multiplexer": "learned_hadamard"},
    "binary": {"model.multiplexer": "binary"},
}
SHAPES: dict[str, dict[str, Any]] = {
    "": {},
    "-2-heads": {"model.heads": 2},
    "-3l-60h": {"model.hidden": 60},
    "-1l-120h": {"model.layers": 1},
}
OURS: dict[str, Any] = {
    "model.multiplexer": "sign",
    "model.multiplexer_options": {"scale": "sqrt"},
    "model.demultiplexer": "gate",
    "model.pooling": "mean",
}
OUR_HEAD = {"conll2003": {"model.head_context": 2}}  # the head of a tagger sees its neighbours, plain or mixed
OUR_SIZES = tuple(sorted({1, *SIZES, *(k for k in EQUAL_COST if k <= max(SIZES))}))
OUR_WARMUP = {"warmup.objective": "all", "warmup.start_size": "auto", "warmup.elastic": 0.2, "warmup.groups": 16}
OUR_TASK = {"task.objective": "all", "task.start_size": "auto", "task.elastic": 0.4}
# Every part that we have, trained in our way.
OUR_MULTIPLEXERS = ("gaussian_hadamard", "learned_hadamard", "binary", "ortho", "low_rank", "contextual", "identity")
OUR_DEMULTIPLEXERS = ("key", "index", "mlp")


def _warmup(name: str, n: int, settings: dict[str, Any], sizes: tuple[int, ...] = ()) -> Experiment:
    settings = {"model.num_instances": n, **settings}
    return Experiment(
        "mini-retrieval", name, "train", "mini/warmup", settings, "mini", n, task="wikipedia_en", group_sizes=sizes
    )


def _as_paper(n: int, keys: str = "hadamard", demultiplexer: str = "index", shape: str = "") -> Experiment:
    """A warm-up as the paper describes it, for one N."""
    parts = KEYS[keys] | SHAPES[shape] | ({} if demultiplexer == "index" else {"model.demultiplexer": demultiplexer})
    return _warmup(f"{keys}-{demultiplexer}{shape}-n{n}", n, TOKENIZER | parts, (n,))


def _ours(name: str, settings: dict[str, Any], n: int = 10) -> Experiment:
    return _warmup(f"ours{name}-n{n}", n, TOKENIZER | OURS | OUR_WARMUP | settings)


def _task(
    task: str,
    n: int,
    keys: str = "hadamard",
    demultiplexer: str = "index",
    shape: str = "",
    *,
    published: bool = False,
    seeds: tuple[int, ...] = (0,),
) -> Experiment:
    """A task from the warm-up of the same parts and the same N."""
    warmup = f"{keys}-{demultiplexer}{shape}-n{n}"
    parts = KEYS[keys] | SHAPES[shape] | ({} if demultiplexer == "index" else {"model.demultiplexer": demultiplexer})
    settings = {"model.start": f"{{mini-retrieval/{warmup}}}", "model.num_instances": n, **parts}
    settings |= {"model.max_tokens": LONGEST_TEXT[task]} | ({"model.new_demultiplexer": True} if published else {})
    name = warmup + "-published" * published
    return _experiment(task, name, settings, n, seeds, (n,))


def _experiment(
    task: str, name: str, settings: dict[str, Any], n: int, seeds: tuple[int, ...], sizes: tuple[int, ...] = ()
) -> Experiment:
    settings = settings | ({"task.steps": STEPS[task]} if task in STEPS else {})
    about: dict[str, Any] = {"seeds": seeds, "task": task, "group_sizes": sizes, "groupings": 2}
    return Experiment(f"mini-{task}", name, "train", f"mini/{task}", settings, "mini", n, **about)


def _plain(task: str, name: str = "", settings: dict[str, Any] = {}, seeds: tuple[int, ...] = (0,)) -> Experiment:  # noqa: B006
    """The paper's baseline: the same encoder, one text per pass."""
    plain = {"run.plain": True, "task.alpha": 0.0, "task.groups": 64, "model.max_tokens": LONGEST_TEXT[task]}
    new = {} if "model.start" in settings else TOKENIZER | {"model.needs_start": False}
    return _experiment(task, f"plain{name}", plain | new | settings, 1, seeds)


def _without_warmup(task: str, n: int) -> Experiment:
    """The paper's training from new weights: does it fail to converge, as the paper says?"""
    new = TOKENIZER | {"model.needs_start": False}
    settings = new | {"model.num_instances": n, "model.max_tokens": LONGEST_TEXT[task]}
    return _experiment(task, f"hadamard-index-n{n}-no-warmup", settings, n, (0,), (n,))


def _our_task(task: str, seeds: tuple[int, ...] = (0,), n: int = 10, sizes: tuple[int, ...] = OUR_SIZES) -> Experiment:
    start: dict[str, Any] = {"model.start": f"{{mini-retrieval/ours-n{n}}}"}
    start |= {"model.num_instances": n, "model.max_tokens": LONGEST_TEXT[task]}
    teacher = {"task.teacher": f"{{mini-{task}/plain-ours}}", "task.distill_logits": 0.5}
    parts = OURS | OUR_HEAD.get(task, {}) | OUR_TASK
    return _experiment(task, f"ours-n{n}", start | parts | teacher, n, seeds, sizes)


def _equally_cheap(task: str, k: int, hidden: int) -> Experiment:
    """The rival of a mixed model that costs as much: narrower, plain, with the same head and teacher.

    It sees about as many rows per step as the mixed model, which has 16 groups. It has no retrieval warm-up, because it
    takes nothing apart.
    """
    rows = 128 if k <= max(SIZES) else 256
    teacher = {"task.teacher": f"{{mini-{task}/plain-ours}}", "task.distill_logits": 0.5, "task.groups": rows}
    shape = {"model.hidden": hidden, "model.heads": 5, "model.pooling": "mean"}
    return _plain(task, f"-ours-3l-{hidden}h", shape | OUR_HEAD.get(task, {}) | teacher, seeds=THREE)


THREE = (0, 1, 2)
ABLATED = ("sst2", "conll2003")  # the paper takes MNLI and NER, but MNLI says little at this scale
WARMUPS = (
    _warmup("plain", 1, {"run.plain": True}),  # the paper's second baseline; the tokenizer is learned here
    _ours("", {}),
    _ours("", {}, max(EQUAL_COST)),
    *(_as_paper(n, keys) for keys in KEYS for n in SIZES),
    *(_as_paper(n, keys, "mlp") for keys in ("hadamard", "ortho") for n in SIZES),
    *(_as_paper(n, shape=shape) for shape in SHAPES if shape for n in SIZES),
    *(_ours(f"-{name}", {"model.multiplexer": name}) for name in OUR_MULTIPLEXERS),
    *(_ours(f"-{name}", {"model.demultiplexer": name}) for name in OUR_DEMULTIPLEXERS),
)
MIXED = tuple(
    experiment
    for task in LONGEST_TEXT
    for experiment in (
        _plain(task, seeds=THREE),
        _plain(task, "-ours", {"model.pooling": "mean"} | OUR_HEAD.get(task, {}), seeds=THREE),
        _plain(task, "-warmed-up", {"model.start": "{mini-retrieval/plain}"}),
        _our_task(task, THREE),
        *(_task(task, n, seeds=THREE) for n in SIZES),
        *(_task(task, n, "ortho") for n in SIZES),
        *(_task(task, n, published=True) for n in SIZES),
    )
)
ABLATIONS = tuple(
    experiment
    for task in ABLATED
    for experiment in (
        *(_task(task, n, demultiplexer="mlp", seeds=THREE) for n in SIZES),  # the paper calls it unstable
        *(_without_warmup(task, n) for n in SIZES),
        _our_task(task, THREE, max(EQUAL_COST), (max(EQUAL_COST),)),
        *(_task(task, n, keys) for keys in ("learned", "binary") for n in SIZES),
        *(_task(task, n, shape=shape) for shape in SHAPES if shape for n in SIZES),
        *(_equally_cheap(task, k, hidden) for k, hidden in EQUAL_COST.items()),
        *(_plain(task, f"-3l-{hidden}h", {"model.hidden": hidden}) for hidden in (12, 24, 60, 240)),
        *(_plain(task, f"-{layers}l-120h", {"model.layers": layers}) for layers in (0, 1, 2, 6)),
    )
)
MINI = (*WARMUPS, *MIXED, *ABLATIONS)
