"""The runner carries experiments out, after what they need. A step is a `datamux` command or a small function.

Training that was interrupted is continued, finished models are used again, and an experiment that has a record in OUT
is left alone. So the runner can be stopped at any time and started again.

    OUT/records/FIGURE/NAME...      records; variant, family, figure and seed are fields of them
    OUT/models/FIGURE/NAME/seedK    training runs       OUT/runs        trained image networks, one small file each
    OUT/texts                       files of texts      OUT/packaged    packed models
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from shlex import join
from typing import Any

from datamux.evaluate.records import read_record, write_record
from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.experiment import ENCODER, IMAGES, REFERENCE, Experiment
from datamux.reproduce.images.measurements import measure
from datamux.reproduce.measurements import MEASUREMENTS
from datamux.reproduce.packing import pack, pack_encoder
from datamux.reproduce.records import RESULTS, Record
from datamux.reproduce.texts import make_texts
from datamux.train.recipe import toml_value
from datamux.vision.digits import Images, load_mnist
from datamux.zoo import shipped_encoders

COMPLETE = ("training.json", "card.json", "encoder.json")  # written last: a trained or a packed model is finished
WARMUPS = ("/warmup", "/pretrain-")  # in the names of recipes that have no task
MINILM = "minilm"  # in its wheel, or on the Hub
Command = Callable[[list[str]], None]  # runs `datamux` with these words; an error is raised
Progress = Callable[[float, float], Callable[[float], None]]  # given all work, and what of it is done; tells of more


@dataclass(frozen=True)
class Step:
    says: str
    do: Callable[[], object]


@dataclass(frozen=True)
class Runner:
    """`experiments` is where needs are looked up. `use_committed`: what has a record in the package is not run."""

    out: Path
    command: Command
    data_dir: str | None = None
    encoder: str = MINILM
    jobs: int = 1
    held_out: bool = False
    use_committed: bool = False
    progress: Progress = lambda total, done: lambda cost: None
    experiments: Mapping[str, Experiment] = field(default_factory=lambda: EXPERIMENTS)

    @property
    def records(self) -> Path:
        return self.out / "records"

    def run(self, experiments: Sequence[Experiment], tell: Callable[[str], None] = lambda text: None) -> list[Path]:
        """Carry out every step that is not done; returns the files of the experiments' records."""
        steps = self.plan(experiments)
        for number, step in enumerate(steps, 1):
            tell(f"step {number} of {len(steps)}: {step.says}")
            step.do()
        files = [self.records / e.file_name(seed) for e in experiments for seed in e.recorded_seeds]
        return [file for file in files if file.exists()]

    def plan(self, experiments: Iterable[Experiment]) -> list[Step]:
        """What is left to do, in order: needs first, and everything once."""
        steps: dict[str, Step] = {}
        for experiment in experiments:
            for seed in experiment.recorded_seeds:
                if not self._is_done(experiment, seed):
                    for step in self._steps(experiment, seed):
                        steps.setdefault(step.says, step)
        return list(steps.values())

    def _is_done(self, experiment: Experiment, seed: int) -> bool:
        file = experiment.file_name(seed)
        if self.use_committed and (experiment.retired or _is_of(experiment, RESULTS / file) or _ships(experiment)):
            return True
        if experiment.kind == "images":  # its networks are looked up one by one
            return False
        return (self.records / file).exists() and read_record(self.records / file)["variant"] == experiment.variant

    def _steps(self, experiment: Experiment, seed: int) -> Iterator[Step]:
        """What the experiment needs, depth first, then its own training and measurement."""
        if experiment.kind in IMAGES:
            yield self._image_step(experiment)
            return
        yield from self._preparation(experiment, seed)
        if experiment.kind in MEASUREMENTS:
            yield Step(f"measure {experiment.id}", partial(self._measure_by_function, experiment, seed))
        elif experiment.has_record:
            words = self._measurement(experiment, seed)
            yield Step(f"datamux {join(words)}", partial(self._measure, experiment, seed, words))

    def _preparation(self, experiment: Experiment, seed: int) -> Iterator[Step]:
        """What it needs, and its own model or texts; nothing that is finished already."""
        place = self.place(experiment, seed)
        if place.is_file() or any((place / file).exists() for file in COMPLETE):
            return
        if experiment.retired:
            raise ValueError(f"{experiment.id} cannot be run again: its code was removed, and only its record is left")
        for name in experiment.needs:
            need = self.experiments[name]
            yield from self._preparation(need, _shared_seed(need, seed))
        if experiment.kind == "train":
            words = self._training(experiment, seed)
            yield Step(f"datamux {join(words)}", partial(self.command, words))
        if experiment.kind == "texts":
            make = partial(make_texts, experiment.name, self._resolved(experiment, 0), place, self.data_dir)
            yield Step(f"write the texts {place}", make)
        if experiment.kind == "package":
            source = Path(self.resolve(experiment.settings["model"], seed))
            packing = partial(pack, experiment.name, source, experiment.task, self.data_dir, place.parent)
            if not experiment.task:
                packing = partial(pack_encoder, experiment.name, source, place.parent, experiment.about)
            yield Step(f"pack {source} into {place}", packing)

    def place(self, experiment: Experiment, seed: int) -> Path:
        """Where the model or the texts of an experiment are, or will be."""
        if experiment.kind == "texts":
            return self.out / "texts" / f"{experiment.name}{experiment.settings['suffix']}"
        if experiment.kind == "package":
            return self.out / "packaged" / experiment.name
        stage = "warmup" if any(part in experiment.recipe for part in WARMUPS) else "task"
        if experiment.settings.get("task.steps") == 0:  # only the stages before the task, for several tasks
            stage = "pretrain"
        return self._folder(experiment, seed) / stage / "model"

    def resolve(self, text: str, seed: int) -> str:
        """A text with its references replaced by folders and files."""

        def replacement(match: Any) -> str:
            if match[1] == ENCODER:
                return self.encoder
            need = self.experiments[match[1]]
            return str(self.place(need, _shared_seed(need, seed)))

        return REFERENCE.sub(replacement, text)

    def _resolved(self, experiment: Experiment, seed: int) -> dict[str, Any]:
        settings = experiment.settings.items()
        return {key: self.resolve(value, seed) if isinstance(value, str) else value for key, value in settings}

    def _folder(self, experiment: Experiment, seed: int) -> Path:
        return self.out / "models" / experiment.figure / experiment.name / f"seed{seed}"

    def _training(self, experiment: Experiment, seed: int) -> list[str]:
        words = ["train", experiment.recipe, "--out", str(self._folder(experiment, seed))]
        for key, value in {"run.seed": seed, **self._resolved(experiment, seed)}.items():
            words += ["--set", f"{key}={toml_value(value)}"]
        if experiment.train_file:
            words += ["--train", self.resolve(experiment.train_file, seed), *experiment.columns]
        return words + self._data_option()

    def _measurement(self, experiment: Experiment, seed: int) -> list[str]:
        settings = self._resolved(experiment, seed)
        if experiment.kind in ("speed", "memory", "breakdown"):
            data = [] if experiment.kind == "memory" else self._data_option()
            return ["bench", experiment.kind, *_options(settings), *data]
        if experiment.kind in ("serve", "cluster", "soak"):
            options = {key: value for key, value in settings.items() if key != "model"}
            data = [] if experiment.kind == "soak" else self._data_option()
            return ["bench", experiment.kind, settings["model"], *_options(options), *data]
        if experiment.kind == "tune":
            return self._tuning(experiment, seed)
        task = self.resolve(experiment.task, seed)
        if experiment.kind == "audit":
            splits = _options({"split": list(experiment.splits)})
            return ["audit", settings["model"], "--task", task, *splits, *self._data_option()]
        if experiment.kind == "frontier":
            words = ["frontier", task]
            for name, model in settings.items():
                words += ["--name", name, "--model", model]
        else:
            model = settings["model"] if experiment.kind == "evaluate" else str(self.place(experiment, seed))
            words = ["evaluate", model, "--task", task, *experiment.columns]
        words += _options({"split": list(experiment.splits), "group-size": list(experiment.group_sizes)})
        return [*words, "--groupings", str(experiment.groupings), *experiment.options, *self._data_option()]

    def _tuning(self, experiment: Experiment, seed: int) -> list[str]:
        """The search keeps all that it does in the folder of models, so that it can be interrupted."""
        given = ["--task", experiment.task]
        if experiment.train_file:
            given = [
                "--train",
                self.resolve(experiment.train_file, seed),
                "--test",
                self.resolve(experiment.task, seed),
            ]
        folder = ["--seed", str(seed), "--out", str(self._folder(experiment, seed))]
        options = _options(self._resolved(experiment, seed))
        return ["tune", *given, *experiment.columns, *options, *folder, *self._data_option()]

    def _data_option(self) -> list[str]:
        return [] if self.data_dir is None else ["--data-dir", self.data_dir]

    def _measure(self, experiment: Experiment, seed: int, words: list[str]) -> None:
        part = (
            self.records / f"part-{experiment.figure}-{experiment.name}-{seed}.json"
        )  # two runners may share a folder
        part.parent.mkdir(parents=True, exist_ok=True)
        self.command([*words, "--record", str(part)])
        self._keep(experiment, seed, read_record(part))
        part.unlink()

    def _measure_by_function(self, experiment: Experiment, seed: int) -> None:
        settings = self._resolved(experiment, seed)
        self._keep(experiment, seed, MEASUREMENTS[experiment.kind](experiment, settings, self.data_dir))

    def _image_step(self, experiment: Experiment) -> Step:
        runs = sum(len(s.sizes) for s in experiment.series) * len(experiment.seeds)
        series = f": {runs} runs of {', '.join(s.name for s in experiment.series)}" if runs else ""
        return Step(f"{experiment.id}{series}", partial(self._measure_images, experiment))

    def _measure_images(self, experiment: Experiment) -> None:
        committed = [RESULTS / "mnist" / "runs"] if self.use_committed else []
        about: dict[str, Any] = {"jobs": self.jobs, "open_progress": self.progress, "more_runs": committed}
        self._keep(experiment, 0, measure(experiment, self.images, self.out / "runs", **about))

    @cached_property
    def images(self) -> Images:
        data = load_mnist(self.data_dir)
        return data.held_out() if self.held_out else data

    def _keep(self, experiment: Experiment, seed: int, record: Record) -> None:
        write_record(described(experiment, seed, record), self.records / experiment.file_name(seed))


def described(experiment: Experiment, seed: int, record: Record) -> Record:
    """A record with the fields that say which experiment it is of."""
    about = {"experiment": experiment.id, "figure": experiment.figure, "family": experiment.family}
    rest = {key: value for key, value in record.items() if key != "kind"}
    return {"kind": record["kind"], **about, "variant": experiment.variant, "seed": seed, **rest}


def _is_of(experiment: Experiment, file: Path) -> bool:
    """Whether a committed record is there, and of the experiment as it is now.

    A figure of images may be narrowed to some series or sizes; its record, which has all, is good for these, too.
    """
    return file.exists() and (experiment.kind in IMAGES or read_record(file)["variant"] == experiment.variant)


def _ships(experiment: Experiment) -> bool:
    """Whether it is an encoder in the package, which has no record: what it packs is there."""
    return experiment.kind == "package" and not experiment.has_record and experiment.name in shipped_encoders()


def _shared_seed(need: Experiment, seed: int) -> int:
    """A need has the same seed if it has several, such as a plain model; a warm-up is shared by all seeds."""
    return seed if seed in need.seeds else need.seeds[0]


def _options(settings: Mapping[str, Any]) -> list[str]:
    """Options of a command: a flag for true, one option per item of a list."""
    words: list[str] = []
    for key, value in settings.items():
        for item in value if isinstance(value, list) else [value]:
            words += [f"--{key}"] if item is True else [f"--{key}", str(item)]
    return words
