"""The catalogue and the records agree, both ways; figures are drawn from records; what is needed exists."""

import json
import shlex
from dataclasses import replace
from itertools import pairwise

import pytest
from typer.main import get_command

from datamux.cli import app
from datamux.evaluate.records import read_record
from datamux.reproduce import figures
from datamux.reproduce.catalogue import EXPERIMENTS, FIGURES, choose, get_experiment
from datamux.reproduce.completeness import problems
from datamux.reproduce.experiment import Experiment
from datamux.reproduce.figures import DERIVED, SECTIONS
from datamux.reproduce.figures.aims import DROPS, RETRIEVAL, SPEED
from datamux.reproduce.figures.quality import IN_SHORT
from datamux.reproduce.images.runs import Run
from datamux.reproduce.records import RESULTS, has_record, records_of
from datamux.reproduce.runner import Runner
from datamux.train.recipe import load_recipe

FILES = {str(file.relative_to(RESULTS)): file for file in sorted(RESULTS.glob("*/*.json"))}
BEFORE = {  # records that the former scripts made
    **{"sst2": 37, "conll2003": 25, "qqp": 6, "qnli": 2, "mnli": 2, "banking77": 8, "your-file": 7, "retrieval": 4},
    **{"warmup-ablation": 9, "task-ablation": 10, "neighbour-control": 8, "frontier": 3, "distilled-frontier": 2},
    **{"packaged-models": 5, "speed": 13, "memory": 2, "breakdown": 7, "mnist": 7},
}


@pytest.mark.parametrize("name", FILES)
def test_every_record_belongs_to_an_experiment_and_has_its_settings(name):
    record = read_record(FILES[name])
    assert problems(record) == []
    experiment = EXPERIMENTS[record["experiment"]]
    assert experiment.file_name(record["seed"]) == name
    assert (record["figure"], record["family"]) == (experiment.figure, experiment.family)


def test_no_record_was_lost():
    found = {figure: sum(name.startswith(f"{figure}/") for name in FILES) for figure in BEFORE}
    assert all(found[figure] >= count for figure, count in BEFORE.items())
    assert len(list((RESULTS / "mnist" / "runs").glob("*.json"))) >= 315


def test_every_experiment_that_a_table_claims_has_its_record():
    claimed = [f"sst2/{name}" for name in IN_SHORT.values()]
    claimed += [f"retrieval/{name}" for name in RETRIEVAL]
    claimed += [f"{task}/{name}" for task, *names, _ in DROPS for name in names]
    claimed += [f"speed/{name}" for name in SPEED] + ["memory/12l-768h"]
    claimed += [
        e.id for figure in ("mnist", "frontier", "distilled-frontier", "packaged-models") for e in choose(figure)
    ]
    assert [name for name in claimed if not has_record(name)] == []


def test_what_was_removed_keeps_its_record():
    retired = [experiment for experiment in EXPERIMENTS.values() if experiment.retired]
    assert retired
    assert all("bypass" in experiment.name and has_record(experiment.id) for experiment in retired)


def test_every_committed_image_run_is_found_by_its_settings(tmp_path):
    """The points of the records are the runs in the package."""
    files = {file.name for file in (RESULTS / "mnist" / "runs").glob("*.json")}
    names = set()
    for experiment in choose("mnist"):
        if experiment.kind == "images":
            for series in experiment.series:
                for n in series.sizes:
                    names |= {Run(series, n, seed).file(tmp_path, _Mnist()).name for seed in experiment.seeds}
    assert names <= files


class _Mnist:
    def about(self):
        return {"source": "MNIST", "train": 60_000, "test": 10_000}


def test_needs_exist_and_nothing_needs_itself():
    def walk(experiment: Experiment, above: tuple[str, ...]) -> None:
        assert experiment.id not in above, above
        for name in experiment.needs:
            walk(EXPERIMENTS[name], (*above, experiment.id))

    for experiment in EXPERIMENTS.values():
        walk(experiment, ())
        if not experiment.retired:
            assert not any(EXPERIMENTS[name].retired for name in experiment.needs)


def test_every_command_of_every_experiment_can_be_given(tmp_path):
    """Every recipe has the settings that are changed, and every command the options that it is given."""
    runner = Runner(tmp_path, lambda words: None, data_dir=str(tmp_path))
    steps = runner.plan(experiment for experiment in EXPERIMENTS.values() if not experiment.retired)
    commands = [shlex.split(step.says)[1:] for step in steps if step.says.startswith("datamux ")]
    assert {words[0] for words in commands} == {"train", "evaluate", "frontier", "bench", "audit"}
    for words in commands:
        if words[0] == "train":
            load_recipe(words[1], [value for flag, value in pairwise(words) if flag == "--set"])
        command = get_command(app)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context("datamux", words)


def test_every_figure_is_described_and_drawn():
    assert set(FIGURES) == {experiment.figure for experiment in EXPERIMENTS.values()}
    assert set(SECTIONS) == {*FIGURES, *DERIVED} - {"texts"}


def test_a_name_is_a_figure_an_experiment_or_met_with_the_nearest():
    assert [e.figure for e in choose("memory")] == ["memory", "memory"]
    assert choose("mnist-mlp") == [get_experiment("mnist/mnist-mlp")]
    for wrong, right in (("mnist-beaten", "mnist-"), ("sst", "sst2"), ("sst2/scratch-n2O", "sst2/scratch-n20")):
        with pytest.raises(ValueError, match=f"no figure or experiment is called '{wrong}'. Did you mean '{right}"):
            choose(wrong)
    with pytest.raises(ValueError, match="choose retrieval/scratch-n20, sst2/scratch-n20"):
        choose("scratch-n20")
    with pytest.raises(ValueError, match="figure of 2 experiments"):
        get_experiment("memory")


def test_a_record_of_other_settings_is_refused():
    (record,) = records_of("qqp")["scratch-n20"]
    assert problems(record) == []
    assert problems(record | {"variant": {"n": 10}}) == ["its variant is not that of qqp/scratch-n20"]
    recipe = record["recipe"] | {"task": record["recipe"]["task"] | {"distill_logits": 0.1}}
    assert problems(record | {"recipe": recipe}) == ["task.distill_logits is 0.1, not 0.5"]
    without = record["recipe"] | {"task": record["recipe"]["task"] | {"teacher": ""}}
    assert len(problems(record | {"recipe": without})) == 1, "seeds with and without a teacher are not averaged"
    assert len(problems(record | {"seed": 7})) == 2
    assert problems(record | {"experiment": "qqp/none"}) == ["'qqp/none' is not an experiment of the catalogue"]


@pytest.mark.parametrize("figure", [name for name in SECTIONS if records_of(DERIVED.get(name, name))])
def test_a_section_shows_the_records_it_is_given_and_no_others(figure, monkeypatch):
    """Other records, other table: with a changed score the section changes, too."""
    groups = json.loads(json.dumps(records_of(DERIVED.get(figure, figure))))
    section = SECTIONS[figure](groups)
    assert section == SECTIONS[figure](groups)
    if figure == "cluster" and not groups:  # not measured yet
        assert section == []
        return
    if figure == "successors" and not groups:
        assert section[-1].startswith("Not run yet: 54 of 54")
        return
    changed = next(iter(groups.values()))[0]
    _change(changed)
    assert SECTIONS[figure](groups) != section


def _change(record: dict) -> None:
    for row in record["rows"] if isinstance(record.get("rows"), list) else []:
        row["value"] += 1
    if record["kind"] == "quality" and "training" in record:
        for part in record["training"]:
            part["reached"] = {size: step + 1 for size, step in part.get("reached", {}).items()}
    for row in record["results"] if isinstance(record["results"], list) else [record["results"]]:
        for key in ("score", "rate", "peak", "mixing", "run", "accuracy", "texts_per_second", "flips"):
            if key in row:
                row[key] += 0.1 * (1 + abs(row[key]))


def test_the_successors_table_shows_what_was_run_and_what_was_not():
    """With one record of two seeds and one of an ensemble, everything else is marked as not run."""

    def record(seed: int, score: float, **more: float) -> dict:
        rows = [{"group_size": k, "score": score, "other": more} for k in (1, 4)]
        stages = [{"stage": "task", "seconds": 600.0}, {"stage": "task", "seconds": 120.0}]
        recipe = {"model": {"mux_layer": 2}, "warmup": {"steps": 0}, "task": {"steps": 600}}
        return {"seed": seed, "results": rows, "recipe": recipe, "encoder": {"layers": 6}, "training": stages}

    groups = {
        "sst2-plain": [record(0, 0.9, ece=0.05)],
        "sst2-low-rank-n4": [record(0, 0.8), record(1, 0.82)],
        "sst2-ensemble-n2": [record(0, 0.91, ece=0.021)],
    }
    lines = SECTIONS["successors"](groups)
    (row,) = [line for line in lines if line.startswith("| low-rank") and "81.0" in line]
    assert row.startswith(
        "| low-rank updates at k > 1 | ours | updates, new parts | 3 | 2 | not run yet | 81.0 ± 1.0 ("
    )
    (row,) = [line for line in lines if "ECE 5.0" in line]
    assert row.endswith("| 90.0, ECE 5.0 | 91.0, ECE 2.1 | not run yet | not run yet |")
    assert lines[-1].startswith("Not run yet: 52 of 54 experiments, such as `sst2-reversible-n2`")


def test_an_experiment_is_frozen_data():
    with pytest.raises(AttributeError):
        get_experiment("sst2/scratch-n20").n = 3
    assert replace(get_experiment("sst2/scratch-n20"), n=3).id == "sst2/scratch-n20"
    assert figures.can_draw("speed")
    assert not figures.can_draw("train")
