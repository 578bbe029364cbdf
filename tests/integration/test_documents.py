"""The code in README and CONTRIBUTING runs as written."""

import re
from pathlib import Path

import pytest
import torch

from conftest import tiny_encoder
from datamux import MULTIPLEXERS, multiplex

ROOT = Path(__file__).parents[2]


def blocks(file: str, language: str) -> list[str]:
    text = re.sub(r"(?m)^ {3}(?=\S| {4}|$)", "", (ROOT / file).read_text())  # a block inside a numbered list
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_readme_multiplexes_an_encoder(tmp_path, tokenizer):
    tiny_encoder().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    code = blocks("README.md", "python")[0].replace("some/pretrained-encoder", str(tmp_path))
    names: dict = {}
    exec(code, names)
    assert names["logits"].shape == (3, 2)


def test_readme_runs_a_trained_model(tmp_path, tokenizer):
    multiplex(tiny_encoder(), 3).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for file, number in (("README.md", 1), ("docs/inference.md", 0)):
        code = blocks(file, "python")[number].replace("runs/sst2/task/model", str(tmp_path)).replace("=10", "=3")
        names: dict = {}
        exec(code, names)
        assert names["predictor"].num_instances == 3


def test_readme_multiplexes_any_network():
    names: dict = {}
    exec(blocks("README.md", "python")[2], names)
    assert names["logits"].shape == (10, 3)


@pytest.mark.parametrize("command", ["demo", "test"])
def test_readme_names_the_two_commands(command):
    assert f"make {command}" in (ROOT / "README.md").read_text()
    assert re.search(rf"(?m)^{command}:", (ROOT / "Makefile").read_text())


def test_contributing_adds_a_multiplexer():
    names: dict = {}
    exec(blocks("CONTRIBUTING.md", "python")[0], names)
    x = torch.arange(24.0).view(1, 2, 3, 4)
    expected = (x[:, 0] + x[:, 1].roll(-1, -1)) / 2
    torch.testing.assert_close(names["Shift"](2, 4)(x), expected)
    assert "shift" not in MULTIPLEXERS
