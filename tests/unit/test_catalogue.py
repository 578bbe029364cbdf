"""The catalogue and the records agree, both ways; figures are drawn from records; what is needed exists."""

import json
import re
import shlex
from dataclasses import replace
from itertools import pairwise

import pytest
from typer.main import get_command

from datamux.cli import app
from datamux.evaluate.records import read_record
from datamux.reproduce import figures
from datamux.reproduce.catalogue import EXPERIMENTS, FIGURES, choose, get_experiment
from datamux.reproduce.catalogue.successors import STEPS
from datamux.reproduce.completeness import problems
from datamux.reproduce.experiment import Experiment, narrowed
from datamux.reproduce.figures import DERIVED, SECTIONS
from datamux.reproduce.figures.aims import DROPS, RETRIEVAL, SPEED
from datamux.reproduce.figures.quality import IN_SHORT
from datamux.reproduce.images.runs import Run
from datamux.reproduce.multiplications import layers_per_text
from datamux.reproduce.records import RESULTS, has_record, records_of
from datamux.reproduce.runner import Runner
from datamux.train.recipe import load_recipe, toml_value
from datamux.tuning.settings import parse_budget

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
        e.id
        for figure in ("mnist", "frontier", "distilled-frontier", "packaged-models")
        for e in choose(figure)
        if e.has_record
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
    assert {words[0] for words in commands} == {"train", "evaluate", "frontier", "bench", "audit", "tune"}
    every = get_command(app)
    for words in commands:
        if words[0] == "train":
            load_recipe(words[1], [value for flag, value in pairwise(words) if flag == "--set"])
        command = every
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
        assert section[-1].startswith("Not run yet: 237 of 237")
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
            if key in row and row[key] is not None:  # flips are not measured at one text per pass
                row[key] += 0.1 * (1 + abs(row[key]))


def test_flips_stand_behind_the_scores_where_they_were_measured():
    groups = {"distilled-n20-consistent": records_of("sst2")["distilled-n20-consistent"]}
    (measured,) = groups["distilled-n20-consistent"]
    share = next(row["flips"] for row in measured["results"] if row["group_size"] == 20)
    shown = "\n".join(SECTIONS["sst2"](groups))
    assert f", {share:.1%} flip" in shown
    assert "when only the neighbours do" in shown
    older = json.loads(json.dumps(measured))
    for row in older["results"]:
        del row["flips"]
    assert "flip" not in "".join(SECTIONS["sst2"]({"distilled-n20-consistent": [older]}))
    both = "\n".join(SECTIONS["sst2"]({"distilled-n20-consistent": [older, measured]}))
    assert f", {share:.1%} flip" in both, "the mean of the seeds that have it"


def test_the_successors_table_shows_what_was_run_and_what_was_not():
    """With one record of two seeds and one of an ensemble, everything else is marked as not run."""

    def record(seed: int, score: float, **more: float) -> dict:
        rows = [{"group_size": k, "score": score - (k > 1) / 10, "other": more} for k in (1, 4)]
        stages = [{"stage": "task", "seconds": 600.0}, {"stage": "warmup", "seconds": 60.0}]
        stages += [{"stage": "task", "seconds": 120.0}]
        model = load_recipe("small/low-rank", ["model.start=plain"]).as_dict()["model"]
        encoder = {"layers": 6, "hidden": 24, "heads": 2}
        return {"seed": seed, "results": rows, "recipe": {"model": model}, "encoder": encoder, "training": stages}

    groups = {
        "sst2-plain": [record(0, 0.9, ece=0.05)],
        "sst2-low-rank-n4": [record(0, 0.9), record(1, 0.92)],
        "sst2-ensemble-n2": [record(0, 0.91, ece=0.021), record(1, 0.93, ece=0.041)],
        "sst2-cut-4": [record(0, 0.88)],
    }
    lines = SECTIONS["successors"](groups)
    (row,) = [line for line in lines if line.startswith("| low-rank") and "81.0" in line]
    layers = layers_per_text(groups["sst2-low-rank-n4"][0], "sequence")
    assert row == (
        f"| low-rank updates at k > 1 | ours | updates, new parts | -, {layers:.1f}, - | -, 3, - | -, 91.0, - "
        "| not run yet | 81.0 ± 1.4 (-9.0) (2 seeds) | not run yet |"
    )
    (row,) = [line for line in lines if line.startswith("| plain, cut to 4") and "88.0" in line]
    assert row == "| plain, cut to 4 |  | everything | 4 | 3 |  " + "| 88.0 (-2.0) (1 seed) " * 3 + "|"
    (row,) = [line for line in lines if "ECE 5.0" in line]
    ensemble = f"92.0 ± 1.4 (2 seeds), ECE 3.1 ± 1.4, {4 * layers:.1f} layers"
    assert row.endswith(f"| 90.0, ECE 5.0 | not run yet | {ensemble} | not run yet | not run yet |")
    assert lines[-1].startswith("Not run yet: 231 of 237 runs (experiments and their seeds), such as `banking77-plain`")
    assert any(f"train for {STEPS} steps of 64 rows (CoNLL-2003: 48)" in line for line in lines)
    full = {"sst2-low-rank-n4": [record(seed, 0.9) for seed in (0, 1, 2)], "sst2-low-rank-n8": [record(0, 0.8)]}
    (row,) = [line for line in SECTIONS["successors"](full) if line.startswith("| low-rank") and "80.0" in line]
    assert "| -, 3, 3 | -, 90.0, 80.0 |" in row, "each value stands at its N"
    assert "seeds" not in row
    lines = SECTIONS["successors"]({"sst2-plain": [record(0, 0.9)], "sst2-cut-5": [record(1, 0.9)]})
    assert "Not run yet: 235 of 237 runs" in lines[-1], "one seed of a cut encoder is not its experiment"


def test_methods_and_rivals_have_one_budget():
    trained = [e for e in EXPERIMENTS.values() if e.figure == "successors" and e.kind == "train" and e.task]
    recipes = {}
    for e in trained:
        overrides = [f"{key}={toml_value(value)}" for key, value in e.settings.items()]
        recipes[e.name] = load_recipe(e.recipe, overrides)
        assert e.seeds == (0, 1, 2)
    for task in ("sst2", "banking77", "conll2003"):
        plain = load_recipe(f"small/minilm-{task}-plain")
        of_task = {name: recipe for name, recipe in recipes.items() if name.startswith(task)}
        assert len(of_task) == 26
        assert {recipe.task.steps for recipe in of_task.values()} == {STEPS}
        assert {recipe.model.max_tokens for recipe in of_task.values()} == {plain.model.max_tokens}
        assert {recipe.model.head_context for recipe in of_task.values()} == {0}
        rows = {_rows_of_a_step(recipe) for recipe in of_task.values()}
        assert rows == {48 if task == "conll2003" else 64}
        assert {recipe.task.start_size for name, recipe in of_task.items() if "-n" in name} == {"capacity"}
        starts = {recipe.model.start for name, recipe in of_task.items() if "mux-plm" not in name}
        assert starts == {f"{{{task}/minilm-plain-6-layers}}"}


def _rows_of_a_step(recipe) -> int:
    n = 1 if recipe.run.plain else recipe.model.num_instances
    return max(recipe.task.groups * n, recipe.task.min_rows // n * n)


def test_both_tasks_are_trained_from_the_encoder_in_the_package_in_the_same_way():
    """They differ only in the shape of their rows, and in their own teacher and texts."""
    for name in ("encoder-plain", "encoder-plain-2-layers", "encoder-n10-mux-layer-2"):
        one, other = (get_experiment(f"{task}/{name}") for task in ("conll2003", "sst2"))
        assert (one.recipe.replace("conll2003", "sst2"), one.family, one.n) == (other.recipe, other.family, other.n)
        wanted = json.loads(json.dumps(one.variant).replace("conll2003", "sst2"))
        assert other.variant == wanted | {"model.max_tokens": 64, "model.head_context": 0}


def test_models_of_a_smaller_file_are_compared_with_the_plain_model_of_that_file():
    (plain,), (mixed,) = (records_of("your-file")[f"banking77-{name}"] for name in ("plain", "n10"))

    def of_fewer_rows(record: dict, name: str) -> dict:
        rows = [row | {"score": row["score"] - 0.2} for row in record["results"]]
        return record | {"experiment": f"your-file/banking77-1000-encoder-{name}", "results": rows}

    fewer = {f"fewer-{name}": [of_fewer_rows(record, name)] for name, record in (("plain", plain), ("n10", mixed))}
    groups = {"plain": [plain], "n10": [mixed]} | fewer
    *_, whole, _, part = [line for line in SECTIONS["your-file"](groups) if line.startswith("| banking77")]
    (drop,) = {re.search(r"\(([+-]\d+\.\d)\)", line)[1] for line in (whole, part)}
    assert abs(float(drop)) < 5, "both lose as much to the plain model of the same rows"


def test_the_stages_before_the_task_are_shared_by_all_tasks(tmp_path):
    names = [f"successors/{task}-mux-plm-n2" for task in ("sst2", "conll2003")]
    steps = Runner(tmp_path, command=lambda words: None).plan([EXPERIMENTS[name] for name in names])
    training = [step.says for step in steps if step.says.startswith("datamux train")]
    assert len(training) == 3 + 2 * 3, "three seeds: once before the task, and once for each task"
    place = tmp_path / "models" / "successors" / "mux-plm-pretrained-n2" / "seed1" / "pretrain" / "model"
    starting = [says for says in training if f'model.start="{place}"' in says]
    assert len(starting) == 2


def test_a_first_picture_of_the_successors_needs_one_seed(tmp_path):
    """`datamux reproduce successors --missing --seeds 1`: every experiment, with seed 0 alone."""
    first = [narrowed(experiment, seeds=1) for experiment in choose("successors")]
    steps = Runner(tmp_path, command=lambda words: None).plan(first)
    training = [step.says for step in steps if step.says.startswith("datamux train") and "/successors/" in step.says]
    assert len(training) == len([e for e in first if e.kind == "train"])
    assert all("--set run.seed=0 " in says for says in training)
    assert not any("seed1" in step.says or "seed2" in step.says for step in steps)


def test_both_methods_of_mimonets_are_in_the_table():
    """Circular convolution and its sibling, which differ only in how slots are bound."""
    circular, ortho = (get_experiment(f"successors/sst2-{name}-n4") for name in ("circular", "ortho"))
    assert circular.recipe == ortho.recipe == "small/mimonets"
    assert ortho.settings == circular.settings | {"model.multiplexer": "learned_ortho"}
    assert load_recipe(circular.recipe, ["model.start=plain"]).model.multiplexer == "learned_circular"
    assert any(line.startswith("| a 1x1 convolution per slot | MIMONets |") for line in SECTIONS["successors"]({}))


def test_an_experiment_is_frozen_data():
    with pytest.raises(AttributeError):
        get_experiment("sst2/scratch-n20").n = 3
    assert replace(get_experiment("sst2/scratch-n20"), n=3).id == "sst2/scratch-n20"
    assert figures.can_draw("speed")
    assert not figures.can_draw("train")


def tuned_row(name: str, family: str, ratio: float, score: float, **more: object) -> dict:
    measured = {"rate": 100 * ratio, "ratio": ratio, "lowest": ratio - 0.1, "highest": ratio + 0.1}
    lost = {"drop": 90 - score, "drop_low": 89 - score, "drop_high": 91 - score, "score": score}
    plain = {"on_frontier": True, "chosen": False, "timed": True, "engine": "torch", "group_size": 1, "chance": 0.7}
    return {"name": name, "model": name, "family": family} | measured | lost | plain | more


def tuned_record(**more: object) -> dict:
    """What a search leaves that tried everything."""
    rows = [
        tuned_row("2 layers", "cut", 4.5, 89.3, chosen=True),
        tuned_row("reference", "reference", 1.0, 90.0),
        *(tuned_row(family, family, 2.0, 88.0) for family in ("narrow", "mixed", "cut and mixed", "words")),
        tuned_row("TF-IDF", "rival", 30.0, 80.0, engine="scikit-learn"),
        {"name": "1 layer, round 1", "family": "cut", "score": 70.0, "drop": 20.0, "rate": 9.0, "timed": False}
        | {"on_frontier": False, "chosen": False},
    ]
    tests = [{"name": name, "rows": 50, "score": score, "drop": 91 - score, "drop_low": 0.1, "drop_high": 0.9}
             for name, score in (("reference", 91.0), ("2 layers", 90.4))]  # fmt: skip
    record = {"kind": "tune", "experiment": "tune/sst2", "seed": 0, "task": "sst2", "metric": "accuracy", "met": True}
    record |= {"variant": EXPERIMENTS["tune/sst2"].variant, "results": rows, "test_results": tests, "notes": []}
    record |= {"engines": ["torch", "bf16", "onnx", "int8", "openvino"], "recommendation": ["Use 2 layers."]}
    record |= {"tenfold": "Nothing is tenfold.", "train_rows": 900, "choice_rows": 80, "spent": 600.0}
    budget = parse_budget(EXPERIMENTS["tune/sst2"].settings["budget"])
    record |= {"budget": budget, "encoder": "minilm", "wish": "at most 1 point below the reference"}
    return record | more


def test_a_tuning_is_shown_against_its_aim(tmp_path):
    record = tuned_record()
    lines = SECTIONS["tune"]({"sst2": [record]})
    (aim,) = [line for line in lines if line.startswith("| sst2 |")]
    assert "| 91.0 | 89.8 on the validation and test rows together | 4x | 2 layers | 4.5x | met | +0.6" in aim
    assert "### Tuned: SST-2" in lines
    (chosen,) = [line for line in lines if line.endswith("| chosen |")]
    assert chosen.startswith("| 2 layers | 89.3 | +0.7 (-0.3 to +1.7) | 450 | 4.5x (4.4 to 4.6) |")
    assert not any("1 layer, round 1" in line for line in lines), "it was not timed"
    assert not any(line.startswith("Warning") for line in lines)
    record["results"][0]["ratio"] = 3.5
    record["notes"] = ["warning: the budget left the reference 30 steps", "80 of the rows were held out"]
    assert "Warning: the budget left the reference 30 steps." in SECTIONS["tune"]({"sst2": [record]})
    assert "missed by 0.5x" in "".join(SECTIONS["tune"]({"sst2": [record]}))
    figures.draw(record, tmp_path / "tune.png")
    assert (tmp_path / "tune.png").stat().st_size > 10_000


def test_a_tuning_that_left_something_out_is_refused():
    assert problems(tuned_record()) == []
    rows = tuned_record()["results"]
    without = [row for row in rows if row["family"] != "mixed"]
    assert problems(tuned_record(results=without)) == ["nothing of the family 'mixed' was tried"]
    said = ["the family 'mixed' was left out: datamux does not know where the layers of albert are"]
    assert problems(tuned_record(results=without, notes=said)) == []
    late = {"name": "3 layers", "family": "cut", "failed": "no time was left", "skipped": True, "chosen": False}
    assert problems(tuned_record(results=[*rows, late])) == ["3 layers: no time was left"]
    assert problems(tuned_record(engines=["torch", "bf16", "onnx", "int8"])) == ["the engine openvino was not measured"]
    assert len(problems(tuned_record(test_results=[]))) == 1
    unmeasured = "no time was left to measure on int8: 3 layers; give a larger --budget"
    assert problems(tuned_record(notes=[unmeasured])) == [unmeasured]


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"budget": 60.0}, "its budget is 60 seconds"),
        ({"wish": "at most 2 points below the reference"}, "its wish is 'at most 2 points"),
        ({"encoder": "encoder"}, "its encoder is 'encoder'"),
    ],
)
def test_a_tuning_with_other_settings_is_refused(other, problem):
    (found,) = problems(tuned_record(**other))
    assert found.startswith(problem)


def test_a_search_can_be_interrupted_because_it_works_in_the_folder_of_models(tmp_path):
    runner = Runner(tmp_path, lambda words: None, encoder="minilm", data_dir="rows")
    (step,) = runner.plan([EXPERIMENTS["tune/sst2"]])
    assert step.says == (
        f"datamux tune --task sst2 --encoder minilm --max-drop 1 --budget 40m --seed 0 "
        f"--out {tmp_path}/models/tune/sst2/seed0 --data-dir rows"
    )
    texts, more, last = runner.plan([EXPERIMENTS["tune/qqp"]])
    assert texts.says.endswith("qqp-train.jsonl")
    assert more.says.endswith("qqp-validation.jsonl")
    assert f"--train {tmp_path}/texts/qqp-train.jsonl --test {tmp_path}/texts/qqp-validation.jsonl" in last.says
