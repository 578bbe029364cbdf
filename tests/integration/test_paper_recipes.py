"""The recipes at the paper's scale: every size has the paper's number of weights, and every kind of recipe trains.

The weights are counted on the meta device, where a model of 110 million weights costs nothing. All 24 recipes come from
two files, so one warm-up, one sequence task and one tagging task train for two steps, with the recipe's settings but a
narrow encoder and few rows. One task runs at full width. `unit/test_recipe.py` checks the values of all 24.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from datamux.hub import MuxConfig, MuxForRetrieval
from datamux.tasks.task import TASKS, get_task
from datamux.train.build import encoder_of_recipe, train_tokenizer
from datamux.train.recipe import load_recipe
from datamux.train.stages import train

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


@pytest.mark.parametrize("recipe", ["warmup", "sst2"])
@pytest.mark.parametrize("size", MILLIONS)
def test_has_the_papers_number_of_weights(size, recipe):
    settings = load_recipe(f"paper/{size}/{recipe}").model
    with torch.device("meta"):
        config = encoder_of_recipe(settings, vocab_size=50_265)
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


@pytest.mark.parametrize(
    ("name", "n", "rate"),
    [
        ("paper/12l-384h/warmup", 40, 5e-5),
        ("paper/12l-768h/mnli", 5, 2e-5),  # a sequence head, with pairs of texts
        ("paper/4l-768h/conll2003", 20, 5e-5),  # a token head
    ],
)
def test_two_steps(name, n, rate, folder, tmp_path):
    section = "warmup" if name.endswith("warmup") else "task"
    final = two_steps(name, folder, tmp_path, [*NARROW, f"model.num_instances={n}", f"{section}.learning_rate={rate}"])
    (training,) = json.loads((final / "training.json").read_text())
    assert (training["stage"], training["steps"]) == (section, 2)
    assert training["reached"] == {str(n): 0}, "the paper starts at N and stays there"
    assert json.loads((final / "recipe.json").read_text())[section]["learning_rate"] == rate


@pytest.mark.slow
def test_two_steps_at_full_width(folder, tmp_path):
    final = two_steps("paper/12l-768h/mnli", folder, tmp_path, ["model.num_instances=20"])
    assert (final / "model.safetensors").stat().st_size > 300e6


def test_the_warm_ups_corpus_is_known():
    assert get_task(load_recipe("paper/12l-768h/warmup").warmup.corpus).kind == "text"
