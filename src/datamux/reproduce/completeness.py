"""Whether a record may be committed: it belongs to an experiment and has that experiment's settings.

Image records must also be of MNIST, by the present version of the code, with every series at every size and seed.
"""

import json
from collections.abc import Iterator
from typing import Any

from datamux.reproduce.catalogue import EXPERIMENTS
from datamux.reproduce.experiment import IMAGES, REFERENCE, Experiment, settings_of
from datamux.reproduce.images.measurements import PICTURED, timed_series
from datamux.reproduce.images.runs import VERSION
from datamux.reproduce.images.torch_again import POINTS
from datamux.reproduce.records import Record
from datamux.tuning.engines import NEEDS
from datamux.tuning.families import FAMILIES
from datamux.tuning.finals import NO_TIME
from datamux.tuning.settings import Wish, parse_budget
from datamux.tuning.subject import SHIPPED
from datamux.vision.digits import MNIST

DATA = {"source": MNIST, "train": 60_000, "test": 10_000}


def problems(record: Record) -> list[str]:
    """What is wrong with a record that was read from a file; nothing, if it may be committed."""
    experiment = EXPERIMENTS.get(record.get("experiment", ""))
    if experiment is None:
        return [f"{record.get('experiment')!r} is not an experiment of the catalogue"]
    check = _image_problems if experiment.kind in IMAGES else _text_problems
    return list(check(record, experiment))


def _text_problems(record: Record, experiment: Experiment) -> Iterator[str]:
    if record["variant"] != json.loads(json.dumps(experiment.variant)):
        yield f"its variant is not that of {experiment.id}"
    if record["seed"] not in experiment.seeds:
        yield f"its seed is {record['seed']}, not one of {list(experiment.seeds)}"
    if experiment.kind == "tune":
        yield from _tuning_problems(record, experiment)
    if experiment.kind == "train":
        if record["recipe"]["run"]["seed"] != record["seed"]:
            yield f"its recipe has seed {record['recipe']['run']['seed']}, not {record['seed']}"
        for place, wanted in experiment.settings.items():
            found = _setting(record["recipe"], place, wanted)
            if found != wanted and not (isinstance(wanted, str) and REFERENCE.search(wanted) and found):
                yield f"{place} is {found!r}, not {wanted!r}"


def _tuning_problems(record: Record, experiment: Experiment) -> Iterator[str]:
    """A search counts if every family and every engine took part, and if it was tested beside the rivals."""
    rows = record["results"]
    tried, notes = {row["family"] for row in rows}, " ".join(record["notes"])
    for family in ("reference", "rival", *FAMILIES):
        if family not in tried and f"the family {family!r} was left out" not in notes:
            yield f"nothing of the family {family!r} was tried"
    for engine in NEEDS:
        if engine not in record["engines"] and not (engine == "bf16" and "half precision (bf16) was left out" in notes):
            yield f"the engine {engine} was not measured"
    yield from (f"{row['name']}: {row['failed']}" for row in rows if row.get("skipped"))
    yield from (note for note in record["notes"] if note.startswith(NO_TIME))
    yield from _other_settings(record, experiment)
    if not record.get("test_results"):
        yield "it was not tested on rows that played no part"
    if sum(row["chosen"] for row in rows) != 1:
        yield "it does not say which model is chosen"


def _other_settings(record: Record, experiment: Experiment) -> Iterator[str]:
    """A budget, a wish or an encoder that the catalogue does not name, as after a first try with other options."""
    settings = experiment.settings
    if record["budget"] != parse_budget(settings["budget"]):
        yield f"its budget is {record['budget']:g} seconds, not {settings['budget']}"
    if record["wish"] != (wanted := str(Wish(max_drop=settings["max-drop"]))):
        yield f"its wish is {record['wish']!r}, not {wanted!r}"
    if not record["encoder"] or record["encoder"] == SHIPPED:
        yield f"its encoder is {record['encoder']!r}, not a pretrained one that was named"


def _setting(recipe: dict[str, Any], place: str, wanted: Any) -> Any:
    """The value of a setting, such as "task.steps". Older records lack some settings, which were off."""
    section, _, key = place.partition(".")
    return recipe[section].get(key, type(wanted)())


def _image_problems(record: Record, experiment: Experiment) -> Iterator[str]:
    kind = experiment.kind
    if record["data"] != DATA:
        yield f"its data are {record['data']}, not {DATA}"
    if kind in ("images", "picture"):
        yield from _setting_problems(record, experiment)
    if kind == "pca":
        return
    series = timed_series() if kind == "image speed" else {s.name: s for s in experiment.series}
    wanted = set(POINTS) if kind == "torch again" else {(name, n) for name, s in series.items() for n in s.sizes}
    seeds: dict[tuple[str, int], list[int]] = {}
    for row in record["rows" if kind == "picture" else "results"]:
        seeds.setdefault((row["series"], row["n"]), []).append(row.get("seed", 0))
    yield from (f"{name!r} at N = {n} is missing" for name, n in sorted(wanted - seeds.keys()))
    yield from (f"{name!r} at N = {n} is not part of the figure" for name, n in sorted(seeds.keys() - wanted))
    if kind == "picture" and len(record["results"]) != PICTURED:
        yield f"it has {len(record['results'])} groups, not {PICTURED}"
    if kind == "images":
        every = list(experiment.seeds)
        yield from (f"{s!r} at N = {n} has seeds {f}, not {every}" for (s, n), f in seeds.items() if sorted(f) != every)


def _setting_problems(record: Record, experiment: Experiment) -> Iterator[str]:
    version, wanted, found = record.get("version"), settings_of(experiment.series), record["recipe"]
    if version != VERSION:
        yield f"its code is of version {version}, not {VERSION}"
    for name in dict.fromkeys((*wanted, *found)):
        if found.get(name) != wanted.get(name):
            yield f"the settings of {name!r} are not the figure's"
