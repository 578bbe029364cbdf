"""An experiment is data: what is trained or measured, what it needs first, with which seeds, and for which figure.

A setting may name what another experiment makes: `"{sst2/scratch-plain}"` is the folder of that model, `"{texts/sst2}"`
that file of texts, and `"{encoder}"` the pretrained encoder. This file knows nothing of how experiments are run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from datamux.errors import check_at_least_one, check_choice
from datamux.vision.networks import ImageNetwork
from datamux.vision.training import PAPER, Protocol

Kind = Literal[
    "train", "evaluate", "package", "texts", "speed", "memory", "breakdown", "serve", "soak", "cluster", "frontier",
    "theory", "anchors", "audit", "tune", "images", "picture", "pca", "image speed", "torch again",
]  # fmt: skip
IMAGES = ("images", "picture", "pca", "image speed", "torch again")
PER_SEED = ("train", "evaluate")  # one record per seed; the others have one record for all
SPLITS = {"sst2": ("validation", "test"), "conll2003": ("test",), "banking77": ("test",)}  # otherwise: validation
REFERENCE = re.compile(r"\{([^{}]+)\}")
ENCODER = "encoder"  # the one reference that is no experiment: the user's copy of the pretrained encoder


@dataclass(frozen=True)
class Series:
    """One line of an image figure: a network, a way to train it, and the group sizes it is trained for."""

    name: str
    network: ImageNetwork
    protocol: Protocol = PAPER
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Experiment:
    """One entry of the catalogue.

    `settings` override the recipe ("train"), are the options of a benchmark, or the models of a frontier by name.
    `n` is how many instances the model takes per pass; 1 is a plain model. `options` are further words for
    `datamux evaluate` or `datamux frontier`. `series` are the lines of an image figure. A retired experiment keeps its
    record, but its code no longer exists.
    """

    figure: str
    name: str
    kind: Kind = "train"
    recipe: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    family: str = ""
    n: int = 1
    seeds: tuple[int, ...] = (0,)
    task: str = ""  # what the model is scored on; empty: it is only made, such as a warm-up that others need
    group_sizes: tuple[int, ...] = ()
    groupings: int = 3
    train_file: str = ""
    columns: tuple[str, ...] = ()  # of a file: --text and --label
    options: tuple[str, ...] = ()
    series: tuple[Series, ...] = ()
    about: str = ""
    retired: bool = False

    @property
    def id(self) -> str:
        return f"{self.figure}/{self.name}"

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that a model is scored on, together."""
        return SPLITS.get(self.task, ("validation",))

    @property
    def has_record(self) -> bool:
        """Whether running it leaves a record, or only a model or texts for other experiments."""
        return self.kind != "texts" and (self.kind not in ("train", "package") or bool(self.task))

    @property
    def variant(self) -> dict[str, Any]:
        """What sets it apart, as fields of its record. The settings of image series are in the record's recipe."""
        if self.kind in IMAGES:
            return {"series": [s.name for s in self.series], "seeds": list(self.seeds)}
        return {"n": self.n, **self.settings}

    @property
    def needs(self) -> tuple[str, ...]:
        """The experiments whose models or texts it uses."""
        texts = (*_strings(self.settings), self.train_file, self.task)
        names = dict.fromkeys(name for text in texts for name in REFERENCE.findall(text))
        return tuple(name for name in names if name != ENCODER)

    @property
    def recorded_seeds(self) -> tuple[int, ...]:
        """One seed per record."""
        return self.seeds if self.kind in PER_SEED else self.seeds[:1]

    def file_name(self, seed: int) -> str:
        """The place of its record, below a folder of records."""
        return f"{self.id}-seed{seed}.json" if self.kind in PER_SEED else f"{self.id}.json"


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)


def settings_of(series: Sequence[Series]) -> dict[str, Any]:
    """All settings of some series, by their names."""
    return {s.name: asdict(s) | {"sizes": list(s.sizes)} for s in series}


def narrowed(
    experiment: Experiment,
    series: Sequence[str] = (),
    sizes: Sequence[int] = (),
    epochs: int | None = None,
    seeds: int | None = None,
) -> Experiment:
    """An experiment with other seeds; if its networks are trained on images, only some series, other N or epochs."""
    if seeds is not None and experiment.kind in ("images", "train"):
        check_at_least_one("seeds", seeds)
        experiment = replace(experiment, seeds=tuple(range(seeds)))
    if experiment.kind not in ("images", "picture"):
        return experiment
    names = [s.name for s in experiment.series]
    for name in series:
        check_choice(f"series of {experiment.name}", name, names)
    for n in sizes:
        if not 1 <= n <= 16:
            raise ValueError(f"-n must be 1 to 16, got {n}")
    if experiment.kind == "picture" and len(set(sizes)) > 1:
        raise ValueError(f"{experiment.name} shows one group size: give -n only once")
    chosen = [s for s in experiment.series if s.name in series or not series]
    if epochs is not None:
        chosen = [replace(s, protocol=replace(s.protocol, epochs=epochs)) for s in chosen]
    return replace(experiment, series=tuple(replace(s, sizes=tuple(dict.fromkeys(sizes)) or s.sizes) for s in chosen))
