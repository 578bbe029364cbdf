"""The stages in one process: what is carried from one to the next, teachers, early stopping, all kinds of labels."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_training import FILL, GOOD, write_sentences

import datamux
from datamux.evaluate.evaluate_model import evaluate_model
from datamux.evaluate.quality import measure_quality
from datamux.evaluate.records import provenance
from datamux.hub.loading import load_config, load_model
from datamux.tasks.labels import Labels
from datamux.tasks.rows import Rows
from datamux.tasks.task import load_split, task_from_files
from datamux.train import stages
from datamux.train.build import train_tokenizer
from datamux.train.recipe import parse_recipe
from datamux.train.stages import train
from datamux.train.trainer import MuxTrainer, SimilarLengths

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
        "train": write_sentences(tmp_path / "train.csv", 800, 0),
        "validation": write_sentences(tmp_path / "val.csv", 200, 1),
    }


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """A classifier with one slot after three steps: something to start from, or to be taught by."""
    folder = tmp_path_factory.mktemp("plain")
    task = task_from_files({"train": write_sentences(folder / "train.csv", 800, 0)}, ["text"], "label")
    return train(recipe(task={"steps": 3, "alpha": 0.0}, run={"plain": True}), folder / "run", task=task)


def test_warm_up_then_task_with_a_teacher(tmp_path, corpus, sentences):
    task = task_from_files(sentences, ["text"], "label")
    warm = recipe(warmup={"steps": 450, "corpus": str(corpus), "tokens": 8, "groups": 16, "learning_rate": 3e-3})
    warmed = train(warm, tmp_path / "warm")
    retrieved = evaluate_model(str(warmed), str(corpus), splits=["train"], bf16=False)
    assert retrieved["results"][0]["metric"] == "retrieval accuracy"
    assert all(row["score"] > 0.9 for row in retrieved["results"])
    assert len(retrieved["results"][-1]["slots"]) == 3

    teaching = recipe(task={"steps": 120, "learning_rate": 3e-3, "alpha": 0.0, "groups": 48}, run={"plain": True})
    teaching = replace(teaching, model=replace(teaching.model, tokenizer=str(tmp_path / "warm/tokenizer")))
    teacher = train(teaching, tmp_path / "plain", task=task)
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


def test_the_head_starts_as_the_teachers(tmp_path, corpus, sentences, plain):
    task = task_from_files(sentences, ["text"], "label")
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


@pytest.mark.parametrize("instances", [1, 3])
def test_a_model_that_goes_on_keeps_its_own_head(tmp_path, sentences, plain, instances):
    """A round that changes no weight leaves all answers as they were, whoever the teacher is."""
    task = task_from_files(sentences, ["text"], "label")
    model = {"num_instances": instances, "start": str(plain)}
    model |= (
        {"multiplexer": "identity", "multiplexer_options": {}, "demultiplexer": "identity"} if instances == 1 else {}
    )
    teaching = {"teacher": str(plain), "distill_logits": 0.5, "alpha": 0.0, "groups": 8}
    own = train(recipe(model=model, task=teaching | {"steps": 10, "learning_rate": 1e-2}), tmp_path / "own", task=task)
    still = teaching | {"steps": 1, "learning_rate": 0.0}
    again = train(recipe(model=model | {"start": str(own)}, task=still), tmp_path / "again", task=task)
    first, second, teacher = (load_model(str(folder)).state_dict() for folder in (own, again, plain))
    assert not first["mux.head.out.weight"].equal(teacher["mux.head.out.weight"])
    for name, tensor in first.items():
        assert torch.equal(second[name], tensor), name
    texts = ["a good film", "a bad film"]
    assert datamux.load(own)(texts) == datamux.load(again)(texts)
    fresh = train(recipe(model=model, task=still), tmp_path / "fresh", task=task)
    for name, tensor in load_model(str(fresh)).state_dict().items():
        if name.startswith("mux.head."):
            assert torch.equal(tensor, teacher[name]), "a new model starts with the head of the teacher"


@pytest.mark.parametrize(
    ("label", "metric"), [([["x"], ["x", "y"], []], "f1"), ([0.25, 0.5, 1.75], "mse"), (["a", "b", "c"], "accuracy")]
)
def test_all_kinds_of_labels_and_pairs(tmp_path, label, metric):
    file = tmp_path / "pairs.jsonl"
    rows = [{"a": f"{GOOD[i % 4]} film", "b": FILL[i % 3], "y": label[i % 3]} for i in range(60)]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    task = task_from_files({"train": file}, ["a", "b"], "y")
    final = train(recipe(task={"steps": 3, "groups": 4}), tmp_path / "run", task=task)
    found = evaluate_model(str(final), str(file), text=["a", "b"], label="y", group_sizes=[2], bf16=False)
    assert found["results"][0]["metric"] == metric
    assert found["results"][0]["rows"] == 60


def test_records_name_the_gpus(monkeypatch):
    assert "gpus" not in provenance()["hardware"] or torch.cuda.is_available()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: f"GPU {number}")
    assert provenance()["hardware"]["gpus"] == ["GPU 0", "GPU 1"]


def test_early_stopping_counts_late(tmp_path, sentences):
    settings = recipe(
        task={"steps": 400, "learning_rate": 0.0, "patience": 2, "threshold": 100.0},
        run=TINY["run"] | {"eval_steps": 20},
    )
    final = train(settings, tmp_path / "run", task=task_from_files(sentences, ["text"], "label"))
    (stage,) = json.loads((final / "training.json").read_text())
    assert 60 <= stage["steps"] <= 120, "nothing is learned, so it stops soon after the capacity is reached"


PATIENT = {"task": {"steps": 60, "patience": 3, "start_size": 3, "groups": 2}, "run": TINY["run"] | {"eval_steps": 5}}
JUDGED = {5: 0.5, 10: 0.8, 15: 0.7, 20: 0.6}  # what evaluation says at each step; 0.1 after these


def judge(monkeypatch):
    """Scores by the step of the run, whatever the model says."""
    told = {}

    def say(trainer, *args, **kwargs):
        told["step"] = trainer.state.global_step
        return evaluate(trainer, *args, **kwargs)

    evaluate = MuxTrainer.evaluate
    monkeypatch.setattr(MuxTrainer, "evaluate", say)
    monkeypatch.setattr(stages, "score", lambda *_: {"score": JUDGED.get(told["step"], 0.1)})


def break_off(monkeypatch, watch: str, at: int):
    """Once, before step `at` of the stage that watches `watch`."""
    compute_loss, broken = MuxTrainer.compute_loss, []

    def stumble(trainer, model, *args, **kwargs):
        if trainer.watch == watch and trainer.state.global_step == at and not broken:
            broken.append(at)
            raise RuntimeError("broken off")
        return compute_loss(trainer, model, *args, **kwargs)

    monkeypatch.setattr(MuxTrainer, "compute_loss", stumble)


def test_early_stopping_keeps_the_best(tmp_path, sentences, monkeypatch):
    judge(monkeypatch)
    task = task_from_files(sentences, ["text"], "label")
    final = train(recipe(**PATIENT), tmp_path / "run", task=task)
    (stage,) = json.loads((final / "training.json").read_text())
    assert stage["steps"] == 25, "three evaluations after the best"
    best = load_file(tmp_path / "run/task/checkpoint-10/model.safetensors")
    assert all(tensor.equal(best[name]) for name, tensor in load_file(final / "model.safetensors").items())

    break_off(monkeypatch, "task_loss", at=22)
    with pytest.raises(RuntimeError, match="broken off"):
        train(recipe(**PATIENT), tmp_path / "again", task=task)
    again = train(recipe(**PATIENT), tmp_path / "again", task=task)
    (stage,) = json.loads((again / "training.json").read_text())
    assert stage["steps"] == 25, "what was counted before the restart counts"


@pytest.mark.parametrize("watch", [pytest.param("retrieval_accuracy", marks=pytest.mark.slow), "task_loss"])
def test_a_run_broken_off_in_either_stage_goes_on_exactly(tmp_path, corpus, sentences, plain, monkeypatch, watch):
    task = task_from_files(sentences, ["text"], "label")
    settings = recipe(
        model=TINY["model"] | {"start": str(plain)},
        warmup={"steps": 16, "corpus": str(corpus), "tokens": 8, "groups": 2, "mask_rate": 0.2},
        task={"steps": 16, "groups": 2, "distill_logits": 0.5, "distill_states": 0.5},
        run=TINY["run"] | {"save_steps": 5, "group_by_length": True, "length_noise": 0.5},
    )
    straight = load_file(train(settings, tmp_path / "straight", task=task) / "model.safetensors")
    break_off(monkeypatch, watch, at=12)
    with pytest.raises(RuntimeError, match="broken off"):
        train(settings, tmp_path / "broken", task=task)
    resumed = load_file(train(settings, tmp_path / "broken", task=task) / "model.safetensors")
    assert all(tensor.equal(resumed[name]) for name, tensor in straight.items())


def test_bf16_learns_and_goes_on_exactly(tmp_path, sentences, monkeypatch):
    task = task_from_files(sentences, ["text"], "label")
    words = train_tokenizer(load_split(task, "train").texts, 200, lowercase=True)
    words.save_pretrained(tmp_path / "words")
    settings = recipe(
        model=TINY["model"] | {"tokenizer": str(tmp_path / "words")},
        task={"steps": 40, "learning_rate": 1e-2, "groups": 8, "min_rows": 24},
        run=TINY["run"] | {"bf16": True, "save_steps": 15},
    )
    model = train(settings, tmp_path / "straight", task=task)
    straight = load_file(model / "model.safetensors")
    assert {tensor.dtype for tensor in straight.values()} == {torch.float32}, "only the arithmetic is in bf16"
    (stage,) = json.loads((model / "training.json").read_text())
    losses = [entry["loss"] for entry in stage["log"] if "loss" in entry]
    assert losses[-1] < 0.8 * losses[0]
    break_off(monkeypatch, "task_loss", at=22)
    with pytest.raises(RuntimeError, match="broken off"):
        train(settings, tmp_path / "broken", task=task)
    resumed = load_file(train(settings, tmp_path / "broken", task=task) / "model.safetensors")
    assert all(tensor.equal(resumed[name]) for name, tensor in straight.items())


def test_a_classifier_that_is_started_from_is_the_teacher(tmp_path, corpus, sentences, plain):
    task = task_from_files(sentences, ["text"], "label")
    model = TINY["model"] | {"start": str(plain)}
    warmup = {"steps": 2, "corpus": str(corpus), "tokens": 8, "groups": 2}

    def trained(name: str, **settings) -> dict:
        wanted = recipe(model=model, warmup=warmup, task={"steps": 1, "groups": 2, **settings})
        return json.loads((train(wanted, tmp_path / name, task=task) / "recipe.json").read_text())["task"]

    found = trained("taught")
    assert (found["teacher"], found["distill_logits"]) == (str(plain), 0.5)
    assert trained("weighed", distill_states=0.3)["distill_logits"] == 0.0
    assert trained("alone", teacher="none")["teacher"] == ""
    with pytest.raises(ValueError, match="need a teacher, and there is none"):
        trained("wrong", teacher="none", distill_logits=0.5)
    other = tmp_path / "other.csv"
    other.write_text("text,label\n" + "good film,yes\nbad film,no\n" * 20)
    final = train(
        recipe(model=model, task={"steps": 1}),
        tmp_path / "o",
        task=task_from_files({"train": other}, ["text"], "label"),
    )
    assert json.loads((final / "recipe.json").read_text())["task"]["teacher"] == "", "it knows other labels"


def test_upper_layers_are_cut_off(tmp_path, sentences):
    task = task_from_files(sentences, ["text"], "label")
    deep = recipe(model=TINY["model"] | {"layers": 3}, task={"steps": 2, "groups": 2}, run={"plain": True})
    start = train(deep, tmp_path / "deep", task=task)
    cut = recipe(
        model=TINY["model"] | {"start": str(start), "keep_layers": 1},
        task={"steps": 1, "groups": 2, "learning_rate": 0.0},
        run={"plain": True},
    )
    place = str(train(cut, tmp_path / "cut", task=task))
    record = evaluate_model(place, str(sentences["validation"]), bf16=False)
    assert (record["encoder"]["layers"], record["encoder"]["hidden"], record["encoder"]["heads"]) == (1, 32, 2)
    final = load_model(place)
    whole = load_model(str(start)).state_dict()
    assert final.config.backbone_config.num_hidden_layers == 1
    kept = [name for name in final.state_dict() if ".encoder." in name]
    assert kept
    assert all(final.state_dict()[name].equal(whole[name]) for name in kept)


def test_bad_rows_are_said_before_the_warm_up(tmp_path, corpus):
    same = tmp_path / "same.csv"
    same.write_text("text,label\n" + "good film,yes\n" * 20)
    settings = recipe(warmup={"steps": 1, "corpus": str(corpus), "tokens": 8}, task={"steps": 1})
    with pytest.raises(ValueError, match="all rows have the label 'yes'"):
        train(settings, tmp_path / "run", task=task_from_files({"train": same}, ["text"], "label"))
    both, other = tmp_path / "both.csv", tmp_path / "other.csv"
    both.write_text("text,label\n" + "good film,yes\nbad film,no\n" * 10)
    other.write_text("text,label\ngood film,yes\nbad film,perhaps\n")
    task = task_from_files({"train": both, "validation": other}, ["text"], "label")
    with pytest.raises(ValueError, match="label 'perhaps' is not one of no, yes"):
        train(settings, tmp_path / "run", task=task)
    taught = recipe(warmup=settings.as_dict()["warmup"], task={"steps": 1, "teacher": "runs/none"})
    with pytest.raises(FileNotFoundError, match="no such folder: runs/none"):
        train(taught, tmp_path / "run", task=task_from_files({"train": both}, ["text"], "label"))
    assert not (tmp_path / "run").exists()


def test_a_failed_first_try_does_not_lock_its_folder(tmp_path, corpus, sentences):
    task = task_from_files(sentences, ["text"], "label")
    warmup = {"steps": 1, "corpus": str(corpus), "tokens": 8, "groups": 2}
    wrong = recipe(model=TINY["model"] | {"demultiplexer_options": {"nonsense": 9}}, warmup=warmup)
    with pytest.raises(ValueError, match="nonsense"):
        train(wrong, tmp_path / "run", task=task)
    assert (tmp_path / "run" / "run.json").exists(), "it failed after the folder was marked as its own"
    right = recipe(model=TINY["model"] | {"vocab_size": 60}, warmup=warmup)
    final = train(right, tmp_path / "run", task=task)
    assert load_model(str(final)).config.backbone_config.vocab_size == 60, "the first try's word pieces are forgotten"
    with pytest.raises(ValueError, match="holds a run of another recipe"):
        train(wrong, tmp_path / "run", task=task)


class OneBadSlot:
    """Answers every row rightly, but those in slot 1, which it answers wrongly."""

    num_instances = 3
    device = torch.device("cpu")

    def bytes_per_group(self, tokens, group_size):
        return 1

    def logits(self, batch, group_size):
        right = torch.nn.functional.one_hot(batch["input_ids"][:, 0] % 2, 2).float()
        bad = torch.arange(len(right)) % group_size == 1
        return torch.where(bad[:, None], 1 - right, right)


def test_every_slot_is_scored_by_itself():
    rows = Rows([[i, 7] for i in range(20)], pad_id=0, labels=[i % 2 for i in range(20)])
    one, three = measure_quality(OneBadSlot(), rows, Labels(("a", "b")), group_sizes=[1, 3], groupings=2)
    assert (one.score, one.slots) == (1.0, [1.0])
    assert three.slots == [1.0, 0.0, 1.0]
    assert three.score == pytest.approx(13 / 20)
    assert one.flips == 0
    assert 0 < three.flips < 14 / 20, "an answer flips where a row sits in slot 1 in one order and not in the other"


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
    task = task_from_files(sentences, ["text"], "label")
    with pytest.raises(ValueError, match="nothing to train"):
        train(recipe(), tmp_path / "a", task=task)
    needy = recipe(model=TINY["model"] | {"needs_start": True}, task={"steps": 1})
    with pytest.raises(ValueError, match="starts from a trained model"):
        train(needy, tmp_path / "b", task=task)
    with pytest.raises(ValueError, match="names no task"):
        train(recipe(task={"steps": 1}), tmp_path / "c")
    tiny = recipe(task={"steps": 1, "groups": 2})
    final = train(tiny, tmp_path / "d", task=task)
    other = task_from_files({"train": sentences["validation"]}, ["text"], "label")
    with pytest.raises(ValueError, match="holds a run on other files"):
        train(tiny, tmp_path / "d", task=other)
    words = tmp_path / "words.jsonl"
    words.write_text(json.dumps({"tokens": ["a"], "tags": ["O"]}))
    with pytest.raises(ValueError, match="classifies texts, but the task words tags tokens"):
        evaluate_model(str(final), str(words), text=["tokens"], label="tags")
    for settings in ({"model": TINY["model"] | {"start": "runs/none"}}, {"task": {"steps": 1, "teacher": "runs/none"}}):
        with pytest.raises(FileNotFoundError, match="no such folder: runs/none; and it could not be loaded"):
            train(recipe(**{"task": {"steps": 1}} | settings), tmp_path / "f", task=task)
    with pytest.raises(FileNotFoundError, match="no such folder: runs/sst2/model; give the folder"):
        load_config("runs/sst2/model")
    with pytest.raises(ValueError, match="group_size must be a whole number of at least 1, got 0"):
        evaluate_model(str(final), str(sentences["validation"]), group_sizes=[0])
    swapped = tmp_path / "swapped.csv"
    swapped.write_text("text,label\nx,yes\ny,no\n")
    with pytest.raises(ValueError, match=r"the teacher .* has the labels"):
        train(
            recipe(task={"steps": 1, "teacher": str(final)}),
            tmp_path / "e",
            task=task_from_files({"train": swapped}, ["text"], "label"),
        )


def test_consistency_and_balance_are_part_of_training(tmp_path, sentences, monkeypatch):
    seen = []
    step = MuxTrainer.compute_loss

    def compute_loss(trainer, model, inputs, *more, **named):
        found = step(trainer, model, inputs, *more, **named)
        if model.training:
            seen.append((trainer.objective.twins, trainer.objective.class_weights, dict(trainer.objective.metrics)))
        return found

    monkeypatch.setattr(MuxTrainer, "compute_loss", compute_loss)
    settings = recipe(task={"steps": 4, "consistency": 2.0, "balance": 1.0, "start_size": 3, "elastic": 0.0})
    train(settings, tmp_path / "run", task=task_from_files(sentences, ["text"], "label"))
    for twins, weights, metrics in seen:
        assert twins is not None, "every row came twice, among different neighbours"
        assert metrics["inconsistency"] > 0
        assert weights.shape == (2,)
    assert len(seen) == 4


def test_a_training_can_keep_its_best_model_by_macro_f1(tmp_path, sentences):
    settings = recipe(
        task={"steps": 4, "patience": 2, "best_by": "macro_f1", "start_size": "capacity"}, run={"eval_steps": 2}
    )
    model = train(settings, tmp_path / "run", task=task_from_files(sentences, ["text"], "label"))
    (summary,) = json.loads((model / "training.json").read_text())
    assert all(0 <= entry["eval_macro_f1"] <= 1 for entry in summary["log"] if "eval_loss" in entry)
    state = json.loads(next((tmp_path / "run" / "task").glob("checkpoint-*/trainer_state.json")).read_text())
    assert state["best_metric"] == max(entry["eval_macro_f1"] for entry in summary["log"] if "eval_loss" in entry)


@pytest.mark.parametrize("setting", [{"balance": 1.0}, {"best_by": "macro_f1"}])
def test_balance_needs_one_label_per_row(tmp_path, setting):
    file = tmp_path / "train.csv"
    file.write_text("text,label\n" + "".join(f"{FILL[i % len(FILL)]} {i},{i / 7}\n" for i in range(80)))
    settings = recipe(task={"steps": 1, **setting})
    with pytest.raises(ValueError, match=r"is for rows with one label each"):
        train(settings, tmp_path / "run", task=task_from_files({"train": file}, ["text"], "label"))
