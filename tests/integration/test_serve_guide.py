"""The examples of the guide on serving work: curl, requests, fetch and the two clients, against a real server."""

import shutil
import subprocess
from pathlib import Path

import huggingface_hub
import playwright
import pytest
from test_documents import blocks

import datamux
from datamux.serve.background import running
from serving import make_service

PAGE = Path(__file__).parents[2] / "docs/guides/serving.md"
ADDRESS = "http://127.0.0.1:8080"
PLAYWRIGHT = str(Path(playwright.__file__).parent / "driver")  # which has a node of its own
BLOCKS = [block for block in blocks(PAGE) if ADDRESS in block.code and block.language != "text"]


@pytest.fixture(scope="module")
def url():
    with running(make_service(datamux.load("sentiment"))) as url:
        yield url


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_an_example_works(url, block, tmp_path, monkeypatch):
    code = block.code.replace(ADDRESS, url)
    if block.language == "python":
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        names: dict = {}
        exec(compile(code, block.place, "exec"), names)
        check(names)
        return
    program, options = {"bash": ("bash", ["-e"]), "javascript": ("node", ["--input-type=module"])}[block.language]
    if block.language == "bash" and not shutil.which("curl"):
        pytest.skip("no curl here")
    found = shutil.which(program) or (program == "node" and shutil.which(program, path=PLAYWRIGHT))
    if not found:
        pytest.skip(f"no {program} here")
    done = subprocess.run([found, *options], input=code, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("positive") == (1 if block.language == "javascript" else 3)


def check(names: dict) -> None:
    """What the names that an example leaves behind should hold."""
    if "labels" in names:
        assert names["labels"] == ["positive", "negative"]
    elif "answers" in names:
        assert [one["label"] for one in names["answers"]] == ["positive", "negative"]
        assert names["best"][0]["label"] == "positive"
        assert names["first"]["label"] == "negative"
    else:
        assert names["found"][0].label == "positive"


def test_every_way_to_ask_has_an_example():
    assert [block.language for block in BLOCKS] == ["bash", "python", "javascript", "python", "python"]
