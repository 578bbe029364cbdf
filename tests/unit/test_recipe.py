"""Recipes: known keys only, right types, overrides, and every shipped one parses."""

import pytest

from datamux.train.ranges import RANGES
from datamux.train.recipe import first_group_size, load_recipe, parse_recipe
from datamux.train.shipped import shipped_recipes


def test_defaults_and_values():
    recipe = parse_recipe({"model": {"num_instances": 5}, "task": {"learning_rate": 1}})
    assert recipe.model.num_instances == 5
    assert recipe.task.learning_rate == 1.0
    assert recipe.warmup.steps == 0
    assert parse_recipe(recipe.as_dict()) == recipe


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"modle": {}}, "unknown section of a recipe 'modle'.*Did you mean 'model'"),
        ({"model": {"num_instance": 3}}, r"unknown key in \[model\] 'num_instance'.*Did you mean 'num_instances'"),
        ({"model": {"num_instances": "3"}}, "model.num_instances must be of type int, got '3'"),
        ({"model": {"layers": True}}, "model.layers must be of type int"),
        ({"run": {"bf16": 1}}, "run.bf16 must be of type bool or str, got 1"),
        ({"run": {"bf16": "yes"}}, "unknown run.bf16 'yes'; allowed: auto"),
        ({"warmup": {"objective": "al"}}, "unknown warmup.objective 'al'; allowed: all, one"),
        ({"warmup": {"mask_rate": 1.0}}, "warmup.mask_rate must be 0 to 0.9, got 1.0"),
        ({"task": {"start_size": "al"}}, "unknown task.start_size 'al'; allowed: auto, capacity"),
        ({"task": {"start_size": 1.5}}, "task.start_size must be of type int or str, got 1.5"),
        ({"task": {"start_size": True}}, "task.start_size must be of type int or str, got True"),
        ({"model": 3}, r"model is a section: write \[model\]"),
    ],
)
def test_mistakes(data, message):
    with pytest.raises(ValueError, match=message):
        parse_recipe(data)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("warmup.steps", -5, "at least 0"),
        ("task.groups", 0, "at least 1"),
        ("task.growth", 0.5, "at least 1"),
        ("task.learning_rate", -1, "0 to 1"),
        ("task.temperature", 0, "at least 0.01"),
        ("model.dropout", 2, "0 to 0.9"),
        ("model.max_tokens", 0, "at least 3"),
        ("model.layers", -1, "at least 0"),
        ("run.eval_steps", 0, "at least 1"),
        ("run.weight_decay", float("nan"), "0 to 1"),
    ],
)
def test_numbers_out_of_range(key, value, allowed):
    section, name = key.split(".")
    with pytest.raises(ValueError, match=rf"{key} must be {allowed}, got"):
        parse_recipe({section: {name: value}})


def test_every_number_has_a_range():
    for section, settings in vars(parse_recipe({"model": {"layers": 0}})).items():
        numbers = {name for name, value in vars(settings).items() if type(value) in (int, float)}
        assert RANGES[section].keys() == numbers


def test_overrides(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[model]\nnum_instances = 3\n")
    recipe = load_recipe(
        str(file),
        ["model.num_instances=7", "task.name=sst2", 'model.multiplexer_options={scale="mean"}', "run.bf16=false"],
    )
    assert (recipe.model.num_instances, recipe.task.name, recipe.run.bf16) == (7, "sst2", False)
    assert recipe.model.multiplexer_options == {"scale": "mean"}
    for bad in ("num_instances=3", "model.num_instances"):
        with pytest.raises(ValueError, match=r"section\.key=value"):
            load_recipe(str(file), [bad])
    with pytest.raises(ValueError, match=r"model\.num_instances is a value, not a table"):
        load_recipe(str(file), ["model.num_instances.x=1"])
    file.write_text("[model")
    with pytest.raises(ValueError, match="is not TOML"):
        load_recipe(str(file))
    with pytest.raises(FileNotFoundError, match=r"there is no recipe file .*other.toml; `datamux ls recipes` lists"):
        load_recipe(str(tmp_path / "other.toml"))
    with pytest.raises(ValueError, match="unknown recipe 'small/sst3'"):
        load_recipe("small/sst3")


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_parse(name):
    recipe = load_recipe(name)
    assert recipe.warmup.steps or recipe.task.steps
    assert shipped_recipes()[name].summary


@pytest.mark.parametrize("name", ["small/sst2-n20", "small/warmup-plain", "paper/12l-768h/conll2003"])
def test_a_printed_recipe_reads_back_the_same(name, tmp_path):
    recipe = load_recipe(name, ["model.num_instances=5", r'task.unlabelled="a \"b\" c\\d"'])
    file = tmp_path / "mine.toml"
    file.write_text(recipe.as_toml())
    assert load_recipe(str(file)) == recipe


def test_the_papers_recipes():
    """The values of the paper's recipes, pinned: they are put together from two files and a table of sizes."""
    names = [name for name in shipped_recipes() if name.startswith("paper/")]
    sizes = {
        "12l-768h": (12, 768, 12),
        "12l-768h-2heads": (12, 768, 2),
        "12l-384h": (12, 384, 12),
        "4l-768h": (4, 768, 12),
    }
    tasks = ("warmup", "sst2", "qqp", "mnli", "qnli", "conll2003")
    assert sorted(names) == sorted(f"paper/{size}/{task}" for size in sizes for task in tasks)
    for name in names:
        _, size, task = name.split("/")
        recipe = load_recipe(name)
        assert (recipe.model.layers, recipe.model.hidden, recipe.model.heads) == sizes[size]
        assert recipe.task.name == ("" if task == "warmup" else task)
        assert (recipe.warmup.steps, recipe.task.steps) == ((500_000, 0) if task == "warmup" else (0, 100_000))
        assert recipe.model.needs_start == (task != "warmup")
        assert (recipe.model.demultiplexer, recipe.model.pooling, recipe.model.max_tokens) == ("index", "first", 128)
        assert recipe.model.multiplexer_options == {"scale": "mean", "key_norm": 20.0}
        stage = recipe.warmup if task == "warmup" else recipe.task
        assert (stage.learning_rate, stage.groups, stage.objective, stage.elastic) == (5e-5, 24, "one", 0.0)
        assert first_group_size(stage.start_size, 40) == 40, "the paper starts at N and stays there"
        assert (recipe.run.eval_steps, recipe.run.save_steps, recipe.run.eval_rows) == (10_000, 10_000, 10_000)


def test_an_override_of_one_recipe_does_not_reach_the_next():
    load_recipe("paper/4l-768h/sst2", ["model.multiplexer_options.scale=sqrt"])
    assert load_recipe("paper/4l-768h/qqp").model.multiplexer_options["scale"] == "mean"


@pytest.mark.parametrize("section", ["warmup", "task"])
def test_a_start_size_that_does_not_fit_is_an_error(section):
    for size in (0, 6):
        with pytest.raises(
            ValueError, match=rf"{section}.start_size must be 1 to 5 \(model.num_instances\), got {size}"
        ):
            parse_recipe({"model": {"num_instances": 5}, section: {"start_size": size}})
    with pytest.raises(ValueError, match=rf"{section}.start_size must be 1 \(a plain model .*, got 2; leave it out"):
        parse_recipe({"run": {"plain": True}, section: {"start_size": 2}})
    recipe = parse_recipe({"model": {"num_instances": 5}, section: {"start_size": 5}})
    assert first_group_size(getattr(recipe, section).start_size, 5) == 5


@pytest.mark.parametrize(
    ("start_size", "first", "alone"), [("auto", 2, 1), ("capacity", 5, 1), (1, 1, 1)], ids=["auto", "capacity", "one"]
)
def test_the_first_group_size(start_size, first, alone):
    assert first_group_size(start_size, 5) == first
    assert first_group_size(start_size, 1) == alone


@pytest.mark.parametrize("name", shipped_recipes())
@pytest.mark.parametrize("override", ["model.num_instances=1", "run.plain=true"])
def test_every_shipped_recipe_can_run_without_mixing(name, override):
    recipe = load_recipe(name, [override])
    assert [first_group_size(stage.start_size, 1) for stage in (recipe.warmup, recipe.task)] == [1, 1]
