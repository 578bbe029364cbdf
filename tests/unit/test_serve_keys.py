"""Keys are shown once and stored as hashes; a removed key stops working in a running server."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from command_line import run, succeed
from datamux.serve import keys as module
from datamux.serve.keys import KeyFile


@pytest.fixture
def file(tmp_path):
    return tmp_path / "some" / "keys.json"


def test_a_key_names_its_tenant_and_only_its_hash_is_stored(file):
    keys = KeyFile(file)
    anna, bob = keys.add("anna"), keys.add("bob")
    assert (keys.tenant(anna), keys.tenant(bob), keys.tenant("dmx_wrong"), keys.tenant("")) == (
        "anna",
        "bob",
        None,
        None,
    )
    stored = file.read_text()
    assert anna not in stored
    assert [key["name"] for key in json.loads(stored)["keys"]] == ["anna", "bob"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_keys_are_compared_in_constant_time(file, monkeypatch):
    keys = KeyFile(file)
    first = keys.add("first")
    keys.add("second")
    compared = []

    def compare(one, other):
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(module.hmac, "compare_digest", compare)
    assert keys.tenant(first) == "first"
    assert len(compared) == 2, "the search must not end at the first match"


def test_a_change_of_the_file_counts_in_a_running_server(file, monkeypatch):
    monkeypatch.setattr(module, "CHECK_EVERY", 0.0)
    serving, elsewhere = KeyFile(file), KeyFile(file)
    key = elsewhere.add("anna")
    assert serving.tenant(key) == "anna"
    elsewhere.remove("anna")
    assert serving.tenant(key) is None
    file.unlink()
    assert serving.tenant(key) is None


def test_keys_are_needed_as_soon_as_there_is_a_file_and_from_then_on(file, monkeypatch):
    monkeypatch.setattr(module, "CHECK_EVERY", 0.0)
    keys = KeyFile(file)
    assert not keys.needed
    KeyFile(file).add("anna")
    assert keys.needed
    KeyFile(file).remove("anna")
    assert keys.needed, "an empty file lets nobody in"
    file.unlink()
    assert keys.needed, "a file that is away must not open the server"
    assert not KeyFile(file).needed


def test_a_broken_file_lets_nobody_in(file, monkeypatch, caplog):
    monkeypatch.setattr(module, "CHECK_EVERY", 0.0)
    keys = KeyFile(file)
    assert not keys.needed
    file.parent.mkdir()
    file.write_text("{")
    assert keys.needed
    assert keys.tenant("dmx_any") is None
    assert "cannot be read" in caplog.text


@pytest.mark.parametrize("name", ["anonymous", "everyone", "health check"])
def test_names_that_mean_something_in_metrics_are_refused(file, name):
    with pytest.raises(ValueError, match="choose another name"):
        KeyFile(file).add(name)
    assert not file.exists()


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 101])
def test_a_bad_name_is_refused(file, name):
    with pytest.raises(ValueError, match="1 to 100 printable"):
        KeyFile(file).add(name)


def test_names_are_unique_and_unknown_names_are_told(file):
    keys = KeyFile(file)
    keys.add("anna")
    with pytest.raises(ValueError, match="named 'anna' already"):
        keys.add("anna")
    with pytest.raises(ValueError, match="no key named 'bob'; there are: anna"):
        keys.remove("bob")


def test_keys_that_are_added_at_the_same_time_are_all_kept(file):
    names = [f"tenant {number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        secrets = list(pool.map(lambda name: KeyFile(file).add(name), names))
    assert [KeyFile(file).tenant(secret) for secret in secrets] == names


def test_a_file_that_is_something_else_is_told(file):
    file.parent.mkdir()
    file.write_text("[1, 2]")
    with pytest.raises(ValueError, match="not a file of keys"):
        KeyFile(file).all()


def test_the_commands_add_list_and_remove(file):
    key = succeed("serve", "keys", "add", "anna", "--keys", file).strip()
    assert KeyFile(file).tenant(key) == "anna"
    assert succeed("serve", "keys", "list", "--keys", file).startswith("anna\t20")
    assert "removed" in succeed("serve", "keys", "remove", "anna", "--keys", file)
    done = run("serve", "keys", "remove", "anna", "--keys", file)
    assert (done.returncode, "no key named 'anna'" in done.stderr) == (2, True)
