"""Every python and bash block of README, CONTRIBUTING and docs runs as written, or says why it is not run.

The blocks of a page run one after the other in one folder, which holds the small files and models that pages speak of.
Commands run in this process. What is trained or timed is made small and short (`cut_short`); nothing else is changed.
A toml block that begins with `# NAME.toml` becomes that file.
A block that needs a network, another machine or hours has `<!-- not run: reason -->` in the line before it.
"""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import transformers as tf

import datamux
from datamux.cli.train import recipe_for
from datamux.train.recipe import load_recipe

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if re.search(r"(?m)^ *```\w", page.read_text(encoding="utf-8"))]
# Pages whose commands train, time or search: they take ten seconds and more.
SLOW = {
    f"docs/{name}.md"
    for name in (
        "quickstart",
        *(f"guides/{guide}" for guide in ("tagging", "choose-n", "csv", "successors", "tune", "pretrained", "export")),
    )
}
OWN_TEST = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]  # run once, where their results are looked at too
LANGUAGES = {"", "text", "json", "toml", "python", "bash"}  # no "sh" or "console": they would not be run
NOT_RUN_HERE = {"javascript"}  # needs a reason
REASON = re.compile(r"<!-- not run: (\S.*) -->")
QUICK = ["--rounds", "1", "--seconds", "0.01"]
TINY = ["--layers", "1", "--hidden", "16", "--heads", "2", "--group-size", "2"]
SEARCH = ["--budget", "10s", "--encoder", "some/pretrained-encoder", "--family", "words", "--engine", "torch"]
TIMED = {"bench": [*QUICK, *TINY], "frontier": [*QUICK, "--groupings", "1"], "tune": SEARCH}
SMALL = {"layers": 3, "hidden": 32, "heads": 2, "vocab_size": 100}


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    code: str
    reason: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page; one inside a list is moved to the left."""
    before, lines = "", iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        fence = re.match(r"( *)```(\w*)$", line)
        if fence:
            code = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                code.append(inner.removeprefix(fence[1]))
            reason = REASON.fullmatch(before.strip())
            yield Block(page, number, fence[2], "\n".join(code), reason and reason[1])
        before = line


def python_names(page: Path) -> list[dict]:
    """The names that each python block of a page leaves behind."""
    found: list[dict] = []
    for block in blocks(page):
        if block.language == "python":
            found.append({})
            exec(block.code, found[-1])
    return found


def commands(code: str) -> Iterator[list[str]]:
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


def cut_short(arguments: list[str]) -> list[str]:
    """The same command, with a small network and two steps of training, or with a short timing or search."""
    if arguments[0] != "train":
        return [*arguments, *TIMED.get(arguments[0], [])]
    starts = [value for flag, value in pairwise(arguments) if flag == "--start"]
    sizes = [f"model.{key}={value}" for key, value in SMALL.items()]
    named = [word for word in arguments[1:2] if not word.startswith("-")] or [recipe_for(*starts[-1:], override=sizes)]
    given = [value for flag, value in pairwise(arguments) if flag == "--set"]
    recipe = load_recipe(named[0], given)
    settings = [*sizes, "run.bf16=false"]
    for stage in ("warmup", "pretrain", "task"):
        if getattr(recipe, stage).steps:
            settings += [f"{stage}.steps=2", f"{stage}.groups=2"]
    if recipe.task.plain_steps:
        settings.append("task.plain_steps=2")
    return [*arguments, *(word for setting in settings for word in ("--set", setting))]


def run_command(words: list[str], monkeypatch) -> None:
    from datamux.cli import main

    assert words[0] == "datamux", f"only datamux commands are run: {' '.join(words)}"
    monkeypatch.setattr(sys, "argv", ["datamux", *cut_short(words[1:])])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code, f"{' '.join(words)}: exit code {end.value.code}"


def check_figure(words: list[str]) -> None:
    """The experiments and the series of a `datamux reproduce` command that is not run exist."""
    from datamux.reproduce.catalogue import choose
    from datamux.reproduce.experiment import narrowed

    given = list(pairwise(words))
    series = [value for flag, value in given if flag == "--series"]
    sizes = [int(value) for flag, value in given if flag == "-n"]
    for experiment in choose(words[2]):
        narrowed(experiment, series, sizes)


def write_rows(folder: Path) -> None:
    texts = [("good film", "praise"), ("the plot was very bad .", "blame"), ("a film", "blame")] * 8
    lines = "".join(f"{text} {number},{label}\n" for number, (text, label) in enumerate(texts * 3))
    for name in ("reviews.csv", "held-out.csv", "new.csv"):
        (folder / name).write_text(f"review,verdict\n{lines}")
    names, places, tags = ("anna", "ben", "carla", "dora"), ("paris", "rome", "oslo"), ["B-PER", "O", "O", "B-LOC"]
    sentences = [[name, "lives", "in", place] for name in names for place in places] * 2
    for name in ("names.jsonl", "held-out.jsonl"):
        rows = (json.dumps({"tokens": words, "ner_tags": tags}) for words in sentences)
        (folder / name).write_text("\n".join(rows) + "\n")
    rows = (f"{' '.join(words)},{' '.join(tags)}\n" for words in sentences)
    (folder / "names.csv").write_text("tokens,ner_tags\n" + "".join(rows))
    (folder / "notes.txt").write_text("anna lives in paris\nthe film was good\n")
    corpus = "".join(f"{text} and {other}\n" for text, _ in texts for other, _ in texts)
    (folder / "corpus.txt").write_text(corpus)
    (folder / "data/sst2").mkdir(parents=True)
    (folder / "data/wikipedia_en").mkdir()
    for split in ("train", "validation"):
        (folder / f"data/sst2/{split}.csv").write_text(
            "sentence,label\n" + lines.replace("praise", "positive").replace("blame", "negative")
        )
    (folder / "data/wikipedia_en/train.txt").write_text(corpus)


@pytest.fixture
def folder(tmp_path, tokenizer, monkeypatch):
    """The working folder of a page: files of rows, a pretrained encoder, trained models."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATAMUX_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(datamux.MULTIPLEXERS, "waves", None)  # a guide adds it; it is taken away again
    write_rows(tmp_path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 40}
    encoder = tf.BertModel(tf.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes))
    for name, task in (("sst2", "sequence"), ("reviews", "sequence"), ("names", "token")):
        model = datamux.multiplex(encoder, 20, task=f"{task}-classification")
        for part in (model, tokenizer):
            part.save_pretrained(tmp_path / f"runs/{name}/task/model")
    for part in (encoder, tokenizer):
        part.save_pretrained(tmp_path / "some/pretrained-encoder")
    return tmp_path


def run_page(page: Path, monkeypatch) -> list[dict]:
    """Run the blocks of a page, and return the names that each python block leaves behind."""
    found: list[dict] = []
    for block in blocks(page):
        allowed = LANGUAGES if block.reason is None else LANGUAGES | NOT_RUN_HERE
        assert block.language in allowed, f"{block.place}: write python or bash, not {block.language}"
        if block.reason is not None:
            for words in commands(block.code) if block.language == "bash" else ():
                if words[:2] == ["datamux", "reproduce"]:
                    check_figure(words)
            continue
        named = re.match(r"# (\w+\.toml)\n", block.code)
        if block.language == "toml" and named:
            Path(named[1]).write_text(block.code)
        if block.language == "python":
            found.append({"__name__": "__main__"})
            exec(compile(block.code, block.place, "exec"), found[-1])
        if block.language == "bash":
            for words in commands(block.code):
                run_command(words, monkeypatch)
    return found


def marked(page: Path) -> object:
    name = str(page.relative_to(ROOT))
    return pytest.param(page, id=name, marks=[pytest.mark.slow] if name in SLOW else [])


@pytest.mark.parametrize("page", [marked(page) for page in PAGES if page not in OWN_TEST])
def test_every_block_runs_or_says_why_not(page, folder, monkeypatch):
    run_page(page, monkeypatch)


def test_the_blocks_of_readme_run_and_give_what_they_say(folder, monkeypatch):
    found = run_page(ROOT / "README.md", monkeypatch)
    assert [len(names["answers"]) for names in found if "answers" in names] == [20]
    first = next(names for names in found if "answers" in names)
    assert len(set(first["texts"])) == 20, "no copies: they would be run once, and not fill a pass"
    right = [a["label"] == label for a, label in zip(first["answers"], ["positive", "negative"] * 10, strict=True)]
    assert sum(right) >= 18


@pytest.mark.parametrize(("page", "shape"), [("docs/index.md", (3, 2)), ("docs/guides/any-network.md", (10, 3))])
def test_rows_in_are_rows_out(page, shape, folder):
    assert [tuple(names["logits"].shape) for names in python_names(ROOT / page) if "logits" in names] == [shape]


def test_a_block_without_a_reason_is_run(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("1. In a list:\n\n   ```python\n   x = 1\n   ```\n<!-- not run: a wish -->\n```bash\nrm x\n```\n")
    listed, unrun = blocks(page)
    assert (listed.code, listed.reason, unrun.reason) == ("x = 1", None, "a wish")
    with pytest.raises(AssertionError, match="only datamux commands"):
        run_command(["rm", "x"], monkeypatch)
    with pytest.raises(AssertionError, match="exit code 2"):
        run_command(["datamux", "ls", "nothing"], monkeypatch)


def test_figures_and_series_that_are_not_run_are_checked():
    check_figure(["datamux", "reproduce", "mnist-cnn", "--series", "ortho", "-n", "2"])
    with pytest.raises(ValueError, match="unknown series of mnist-cnn 'rotation'"):
        check_figure(["datamux", "reproduce", "mnist-cnn", "--series", "ortho", "--series", "rotation"])
    with pytest.raises(ValueError, match="no figure or experiment is called 'mnist-cmm'"):
        check_figure(["datamux", "reproduce", "mnist-cmm"])


@pytest.mark.parametrize("command", ["demo", "test"])
def test_readme_names_the_two_commands(command):
    assert f"make {command}" in (ROOT / "README.md").read_text()
    assert re.search(rf"(?m)^{command}:", (ROOT / "Makefile").read_text())


def test_the_blocks_of_contributing_run_and_add_a_multiplexer(folder, monkeypatch):
    names = run_page(ROOT / "CONTRIBUTING.md", monkeypatch)[0]
    x = torch.arange(24.0).view(1, 2, 3, 4)
    wave = torch.cos(torch.pi * torch.arange(4) / 4)
    torch.testing.assert_close(names["Waves"](2, 4)(x), (x[:, 0] + x[:, 1] * wave) / 2)
