"""The stages in one process: what is carried from one to the next, teachers, early stopping, all kinds of labels."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_training import FILL, GOOD, write_sentences

from datamux.evaluate.report import evaluate_model
from datamux.hub.loading import load_model
from datamux.tasks.rows import Rows
from datamux.tasks.task import own_task
from datamux.train.recipe import parse_recipe
from datamux.train.stages import train
from datamux.train.trainer import SimilarLengths

TINY = {
    "model": {"layers": 1, "hidden": 32, "heads": 2, "vocab_size": 200, "max_tokens": 16, "num_instances": 3},
    "run": {"bf16": False, "warmup_steps": 10, "save_steps": 1000, "eval_steps": 1000},
}


def recipe(**sections):
    return parse_recipe({name: TINY.get(name, {}) | sections.get(name, {}) for name in {*TINY, *sections}})


@pytest.fixture
def corpus(tmp_path) -> Path:
    file = tmp_path / "corpus.txt"
    words = [*FILL, *GOOD]
    file.write_text("\n".join(" ".join(words[(i + j * j) % len(words)] for j in range(12)) for i in range(600)))
    return file


@pytest.fixture
def sentences(tmp_path):
    return {
        "train": write_sentences(tmp_path / "train.csv", 2000, 0),
        "validation": write_sentences(tmp_path / "val.csv", 200, 1),
    }


def test_warm_up_then_task_with_a_teacher(tmp_path, corpus, sentences):
    task = own_task(sentences, ["text"], "label")
    warm = recipe(warmup={"steps": 450, "corpus": str(corpus), "tokens": 8, "groups": 16, "learning_rate": 3e-3})
    warmed = train(warm, tmp_path / "warm")
    retrieved = evaluate_model(str(warmed), str(corpus), splits=["train"], bf16=False)
    assert retrieved["results"][0]["metric"] == "retrieval accuracy"
    assert all(row["score"] > 0.9 for row in retrieved["results"])
    assert len(retrieved["results"][-1]["slots"]) == 3

    plain = recipe(task={"steps": 120, "learning_rate": 3e-3, "alpha": 0.0, "groups": 48}, run={"plain": True})
    plain = replace(plain, model=replace(plain.model, tokenizer=str(tmp_path / "warm/tokenizer")))
    teacher = train(plain, tmp_path / "plain", task=task)
    assert load_model(str(teacher)).config.num_instances == 1

    settings = {"steps": 1, "learning_rate": 0.0, "teacher": str(teacher), "distill_logits": 0.5, "distill_states": 0.5}
    first = replace(recipe(task=settings), model=replace(warm.model, start=str(warmed)))
    start = load_model(str(train(first, tmp_path / "start", task=task)))
    for name, tensor in load_model(str(warmed)).state_dict().items():
        assert torch.equal(start.state_dict()[name], tensor), f"{name} must come from the warm-up"

    final = train(
        replace(first, task=replace(first.task, steps=150, learning_rate=3e-3)), tmp_path / "final", task=task
    )
    found = evaluate_model(str(final), str(sentences["validation"]), bf16=False)
    assert all(row["score"] > 0.9 for row in found["results"])
    assert [stage["stage"] for stage in found["training"]] == ["warmup", "task"]
    logged = [entry for entry in found["training"][1]["log"] if "task_loss" in entry]
    assert {"logit_distance", "state_distance", "retrieval_accuracy"} <= logged[0].keys()


def test_the_head_starts_as_the_teachers(tmp_path, corpus, sentences):
    task = own_task(sentences, ["text"], "label")
    plain = train(recipe(task={"steps": 3, "alpha": 0.0}, run={"plain": True}), tmp_path / "plain", task=task)
    both = recipe(
        model={**TINY["model"], "start": str(plain)},
        warmup={"steps": 2, "corpus": str(corpus), "tokens": 8, "groups": 2},
        task={"steps": 1, "learning_rate": 0.0, "groups": 2, "teacher": str(plain)},
    )
    final = load_model(str(train(both, tmp_path / "both", task=task)))
    before = load_model(str(plain))
    for name, tensor in before.state_dict().items():
        if name.startswith("mux.head."):
            assert torch.equal(final.state_dict()[name], tensor)
    assert final.config.num_instances == 3


@pytest.mark.parametrize(
    ("label", "metric"), [([["x"], ["x", "y"], []], "f1"), ([0.25, 0.5, 1.75], "mse"), (["a", "b", "c"], "accuracy")]
)
def test_all_kinds_of_labels_and_pairs(tmp_path, label, metric):
    file = tmp_path / "pairs.jsonl"
    rows = [{"a": f"{GOOD[i % 4]} film", "b": FILL[i % 3], "y": label[i % 3]} for i in range(60)]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    task = own_task({"train": file}, ["a", "b"], "y")
    final = train(recipe(task={"steps": 3, "groups": 4}), tmp_path / "run", task=task)
    found = evaluate_model(str(final), str(file), text=["a", "b"], label="y", group_sizes=[2], bf16=False)
    assert found["results"][0]["metric"] == metric
    assert found["results"][0]["rows"] == 60


def test_early_stopping_keeps_the_best_and_counts_late(tmp_path, sentences):
    settings = recipe(
        task={"steps": 400, "learning_rate": 0.0, "patience": 2, "threshold": 100.0},
        run=TINY["run"] | {"eval_steps": 20},
    )
    final = train(settings, tmp_path / "run", task=own_task(sentences, ["text"], "label"))
    (stage,) = json.loads((final / "training.json").read_text())
    assert 60 <= stage["steps"] <= 120, "nothing is learned, so it stops soon after the capacity is reached"


def test_batches_of_similar_lengths_are_the_same_after_a_restart():
    rows = Rows([[5] * (1 + i % 17) for i in range(400)], pad_id=0)
    one, other = SimilarLengths(rows, 8, seed=3), SimilarLengths(rows, 8, seed=3)
    torch.manual_seed(1)
    order = list(one)
    torch.manual_seed(2)
    assert list(other) == order
    assert sorted(order) == list(range(400))
    other.set_epoch(1)
    assert list(other) != order
    assert mean_width(order) < 0.6 * 17
    noisy = list(SimilarLengths(rows, 8, seed=3, noise=1.0))
    assert sorted(noisy) == list(range(400))
    assert mean_width(order) < mean_width(noisy) < mean_width(range(400))


def mean_width(order):
    """The length of the longest of every eight rows, where row i has 1 + i % 17 tokens."""
    return sum(max(1 + i % 17 for i in order[start : start + 8]) for start in range(0, 400, 8)) / 50


def test_clear_errors(tmp_path, sentences):
    task = own_task(sentences, ["text"], "label")
    with pytest.raises(ValueError, match="nothing to train"):
        train(recipe(), tmp_path / "a", task=task)
    needy = recipe(model=TINY["model"] | {"needs_start": True}, task={"steps": 1})
    with pytest.raises(ValueError, match="starts from a trained model"):
        train(needy, tmp_path / "b", task=task)
    with pytest.raises(ValueError, match="names no task"):
        train(recipe(task={"steps": 1}), tmp_path / "c")
    tiny = recipe(task={"steps": 1, "groups": 2})
    final = train(tiny, tmp_path / "d", task=task)
    other = own_task({"train": sentences["validation"]}, ["text"], "label")
    with pytest.raises(ValueError, match="holds a run on other files"):
        train(tiny, tmp_path / "d", task=other)
    words = tmp_path / "words.jsonl"
    words.write_text(json.dumps({"tokens": ["a"], "tags": ["O"]}))
    with pytest.raises(ValueError, match="classifies texts, and words is a task that tags tokens"):
        evaluate_model(str(final), str(words), text=["tokens"], label="tags")
    swapped = tmp_path / "swapped.csv"
    swapped.write_text("text,label\nx,yes\ny,no\n")
    with pytest.raises(ValueError, match=r"the teacher .* has the labels"):
        train(
            recipe(task={"steps": 1, "teacher": str(final)}),
            tmp_path / "e",
            task=own_task({"train": swapped}, ["text"], "label"),
        )
