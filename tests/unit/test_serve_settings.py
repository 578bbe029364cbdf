"""Every option is a flag and an environment variable, and gears follow the model's card."""

import dataclasses
import json
import re
from types import SimpleNamespace

import pytest

from command_line import run, succeed
from datamux.serve.gears import Gear, Gearbox
from datamux.serve.service import choose_gears, load_service, read_card
from datamux.serve.settings import Settings, flag, variable
from datamux.serve.tuned import load_gears, tuned_gears
from serving import make_predictor

CARD = {"scores": {"1": 0.80, "2": 0.805, "5": 0.79, "10": 0.785}, "speed": {"10": {"texts_per_second": 900.0}}}


def sizes(capacity: int = 10, card: dict = CARD, **settings: object) -> list[int]:
    return [gear.group_size for gear in choose_gears(capacity, card, Settings(**settings))]


def test_every_setting_is_a_flag_with_a_variable_and_a_help_text():
    shown = re.sub(r"[\s│]+", " ", succeed("serve", "run", "--help"))
    for field in dataclasses.fields(Settings):
        assert f" {flag(field.name)} " in shown
        assert variable(field.name) in shown
        assert field.metadata["help"].endswith(".")


def test_settings_are_read_from_the_environment():
    environment = {"DATAMUX_SERVE_PORT": "99", "DATAMUX_SERVE_MAX_DROP": "1.5", "DATAMUX_SERVE_DETERMINISTIC": "yes"}
    found = Settings.from_environment(environment, host="::1")
    assert (found.port, found.max_drop, found.deterministic, found.host) == (99, 1.5, True, "::1")
    for name, value in (("PORT", "many"), ("DETERMINISTIC", "perhaps")):
        with pytest.raises(ValueError, match=f"DATAMUX_SERVE_{name} is '{value}'"):
            Settings.from_environment({f"DATAMUX_SERVE_{name}": value})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"port": 70_000}, "--port must be 0 to 65535, got 70000"),
        ({"max_groups": 0}, "--max-groups must be a whole number of at least 1, got 0"),
        ({"timeout_ms": 0.0}, "--timeout-ms must be more than 0 milliseconds, got 0"),
        ({"max_wait_ms": -1.0}, "--max-wait-ms must be at least 0 milliseconds, got -1"),
        ({"max_wait_ms": float("nan")}, "--max-wait-ms must be at least 0 milliseconds, got nan"),
        ({"log_level": "loud"}, "unknown log level 'loud'"),
        ({"fill": "twice"}, "unknown fill 'twice'; allowed: nothing, repeat"),
    ],
)
def test_a_value_that_is_not_allowed_is_told(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Settings(**given)


def test_a_variable_reaches_the_command(monkeypatch):
    monkeypatch.setenv("DATAMUX_SERVE_GEARS", "1,2,nine")
    monkeypatch.setenv("DATAMUX_SERVE_NO_KEYS", "true")
    done = run("serve", "sentiment")
    assert done.returncode == 2
    assert "--gears is '1,2,nine'" in done.stderr


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [1, 2, 5, 10]),
        ({"max_drop": 1.0}, [1, 2, 5]),
        ({"max_drop": 1.5}, [1, 2, 5, 10]),
        ({"max_drop": 0.0}, [1, 2]),
        ({"max_group_size": 7}, [1, 2, 5, 7]),
        ({"max_group_size": 5, "max_drop": 0.5}, [1, 2]),
        ({"gears": "10"}, [10]),
        ({"gears": "5,1"}, [1, 5]),
        ({"deterministic": True}, [1]),
    ],
)
def test_the_operator_chooses_the_gears(settings, expected):
    assert sizes(**settings) == expected


def test_max_drop_is_looked_up_in_the_card_of_a_packaged_model():
    card = read_card("sentiment")
    drops = {int(k): 100 * (card["scores"]["1"] - score) for k, score in card["scores"].items()}
    assert len(set(drops.values())) == 5, "the drops that this test tells apart"
    for limit in (drop + 0.001 for drop in drops.values()):
        assert sizes(20, card, max_drop=limit) == [k for k in (1, 2, 5, 10, 20) if drops[k] <= limit]
    assert sizes(20, card, max_drop=max(drops.values()) + 1) == [1, 2, 5, 10, 20]


def test_a_model_without_a_card_has_the_usual_gears_and_no_max_drop():
    assert sizes(7, {}) == [1, 2, 5, 7]
    assert sizes(1, {}, max_drop=1.0) == [1]
    with pytest.raises(ValueError, match=r"needs the scores in the model's card\.json"):
        sizes(7, {}, max_drop=1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gears": "1,11"}, "--gears has 11; this model allows 1 to 10"),
        ({"gears": "0,1"}, "--gears has 0"),
        ({"max_group_size": 11}, "--max-group-size has 11"),
        ({"max_drop": -1.0}, "at least 0 points"),
        ({"gears": "5", "max_group_size": 2}, "no group size in --gears 5"),
        ({"gears": "10", "max_drop": 0.1}, "loses at most 0.1 points"),
    ],
)
def test_what_cannot_be_is_told(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        sizes(**settings)


def test_gears_shift_with_the_number_of_groups_that_wait():
    gears = Gearbox([Gear("one", 1), Gear("three", 3), Gear("seven", 7)])
    for waiting, name in (([4], "one"), ([5], "three"), ([13], "seven"), ([99], "seven"), ([2, 2], "one")):
        assert gears.choose(waiting, 4).name == name
    assert gears.choose([1] * 50, 4).name == "one", "texts of different tenants gain nothing from larger groups"
    assert gears.choose([2] * 50, 4).name == "three"


def test_a_faster_model_is_a_gear_of_its_own():
    """Two plain models: the accurate one while its pass has room, the one that is four times as fast under load."""
    gears = Gearbox([Gear("all layers", 1), Gear("two layers", 1, "gears/1", pace=4.0)])
    assert gears.choose([8], groups=8).name == "all layers"
    assert gears.choose([9], groups=8).name == "two layers"
    assert gears.choose([500], groups=8).name == "two layers"
    assert gears.alone.name == "all layers"


def test_a_gear_that_is_not_listed_has_a_name_that_fits_a_list_with_commas():
    assert Gearbox([Gear("mux-20", 20)]).alone == Gear("mux-20-alone", 1)


@pytest.mark.parametrize(
    ("given", "name"), [(".", "inner"), ("..", "outer"), ("../inner", "inner"), ("inner/", "inner")]
)
def test_the_name_of_a_model_is_that_of_its_folder(tmp_path, monkeypatch, given, name):
    inner = tmp_path / "outer" / "inner"
    make_predictor(inner)
    make_predictor(inner.parent)
    monkeypatch.chdir(inner.parent if given == "inner/" else inner)
    assert load_service(given, Settings(no_keys=True)).name == name


def test_a_tuned_folder_takes_the_same_options(tmp_path, monkeypatch):
    gears = [
        {"name": name, "group_size": size, "folder": folder, "score": score, "speed": 100.0 * size}
        for name, size, folder, score in (("plain", 1, ".", 0.9), ("five", 5, "five", 0.89), ("ten", 10, "ten", 0.8))
    ]
    (tmp_path / "gears.json").write_text(json.dumps(gears))
    chosen = Settings(gears="1, 5", device="cuda:1", bf16=True, compiled=True)
    found = tuned_gears(tmp_path, chosen)
    assert [gear.group_size for gear in found] == [1, 5]
    with pytest.raises(ValueError, match="--gears is '1,five'"):
        tuned_gears(tmp_path, Settings(gears="1,five"))
    loaded = []
    model = SimpleNamespace(names=["a", "b"], texts=SimpleNamespace(max_tokens=9))

    def load(folder, **options):
        loaded.append((folder, options))
        return model

    monkeypatch.setattr("datamux.serve.tuned.load", load)
    assert set(load_gears(tmp_path, found, model, chosen)) == {"model", "five"}
    assert loaded == [(tmp_path / "five", {"device": "cuda:1", "bf16": True, "compiled": True})]
