"""The recipes at the paper's scale: each has the paper's sizes, and each runs two steps.

The sizes are checked on the meta device, where a model of 110 million weights costs nothing. The two steps run with the
recipe's own settings, but a narrow encoder and few rows, for each task, N and learning rate; one runs at full width.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from datamux.hub import MuxConfig, MuxForRetrieval
from datamux.tasks.task import TASKS, get_task
from datamux.train.build import new_encoder_config, train_tokenizer
from datamux.train.recipe import load_recipe, shipped_recipes
from datamux.train.stages import train

PAPER = sorted(name for name in shipped_recipes() if name.startswith("paper/"))
SIZES = (2, 5, 10, 20, 40)
WORDS = ["the", "film", "was", "good", "bad", "plot", "and", "so", "it", "not"]
MILLIONS = {
    "12l-768h": 124,
    "12l-384h": 41,
    "4l-768h": 68,
    "12l-768h-2heads": 124,
}  # of a plain RoBERTa, by its formula


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Rows for every task and a tokenizer, made on the spot."""
    base = tmp_path_factory.mktemp("data")
    for task in TASKS.values():
        place = base / task.name
        place.mkdir()
        for split in ("train", "validation"):
            if task.kind == "text":
                (place / f"{split}.txt").write_text(f"{' '.join(WORDS)}\n" * 400)
            else:
                (place / f"{split}.jsonl").write_text("\n".join(json.dumps(_row(task, i)) for i in range(90)))
    train_tokenizer([" ".join(WORDS)] * 20, 60, lowercase=True).save_pretrained(base / "tokenizer")
    return base


def _row(task, i):
    if task.kind == "token":
        return {"tokens": WORDS[:3], task.label: ["O", "B-PER", "I-PER"]}
    label = (task.label_names or ("a", "b"))[i % 2]
    return {column: " ".join(WORDS[i % 5 : i % 5 + 4]) for column in task.text} | {task.label: label}


@pytest.mark.parametrize("name", PAPER)
def test_has_the_papers_sizes(name):
    settings = load_recipe(name).model
    size = name.split("/")[1]
    with torch.device("meta"):
        config = new_encoder_config(settings, vocab_size=50_265)
        model = MuxForRetrieval(MuxConfig(backbone_config=config.to_dict(), num_instances=settings.num_instances))
        encoder = sum(p.numel() for p in model.backbone.encoder.parameters())
    assert encoder / 1e6 == pytest.approx(MILLIONS[size], rel=0.03)
    assert (config.num_attention_heads == 2) == size.endswith("2heads")
    assert settings.demultiplexer == "index"


def two_steps(name: str, folder: Path, out: Path, overrides: list[str]) -> Path:
    recipe = load_recipe(name, [*overrides, "model.needs_start=false"])  # two steps need no warm-up
    recipe = replace(recipe, model=replace(recipe.model, tokenizer=str(folder / "tokenizer"), max_tokens=8))
    recipe = replace(
        recipe,
        warmup=replace(recipe.warmup, steps=2 if "warmup" in name else 0, groups=1, tokens=6),
        task=replace(recipe.task, steps=0 if "warmup" in name else 2, groups=1),
        run=replace(recipe.run, eval_rows=4, bf16=False),
    )
    return train(recipe, out, data_dir=str(folder))


NARROW = ["model.layers=1", "model.hidden=24", "model.heads=2"]


@pytest.mark.parametrize("name", PAPER)
def test_two_steps(name, folder, tmp_path):
    n = SIZES[PAPER.index(name) % len(SIZES)]
    rate = (5e-5, 2e-5)[PAPER.index(name) % 2]
    section = "warmup" if name.endswith("warmup") else "task"
    final = two_steps(name, folder, tmp_path, [*NARROW, f"model.num_instances={n}", f"{section}.learning_rate={rate}"])
    (training,) = json.loads((final / "training.json").read_text())
    assert (training["stage"], training["steps"]) == (section, 2)
    assert training["reached"] == {str(n): 0}, "the paper starts at N and stays there"
    assert json.loads((final / "recipe.json").read_text())[section]["learning_rate"] == rate


def test_tasks_start_from_the_warm_up():
    for name in PAPER:
        assert load_recipe(name).model.needs_start == (not name.endswith("/warmup")), name


def test_two_steps_at_full_width(folder, tmp_path):
    final = two_steps("paper/12l-768h/mnli", folder, tmp_path, ["model.num_instances=20"])
    assert (final / "model.safetensors").stat().st_size > 300e6


def test_every_task_of_the_paper_has_a_recipe():
    assert {name.split("/")[2] for name in PAPER} == {"warmup", "sst2", "qqp", "mnli", "qnli", "conll2003"}
    assert get_task("wikitext-103").kind == "text"
