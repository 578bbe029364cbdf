"""Recipes: known keys only, right types, overrides, and every shipped one parses."""

import pytest

from datamux.train.ranges import RANGES
from datamux.train.recipe import load_recipe, parse_recipe, shipped_recipes


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
    with pytest.raises(FileNotFoundError, match="no such recipe"):
        load_recipe(str(tmp_path / "other.toml"))
    with pytest.raises(ValueError, match="unknown recipe 'small/sst3'"):
        load_recipe("small/sst3")


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_parse(name):
    recipe = load_recipe(name)
    assert recipe.warmup.steps or recipe.task.steps
    assert shipped_recipes()[name].read_text().startswith("# "), "the first line says what it is"
