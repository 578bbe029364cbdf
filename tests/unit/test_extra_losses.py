"""The losses that a recipe can add, against their formulas; repetition for ensembling; and the calibration error."""

import numpy as np
import pytest
import torch
import transformers as tf
from torch.nn import functional as F

from conftest import random_rows, tiny_encoder
from datamux import multiplex
from datamux.evaluate import quality
from datamux.evaluate.quality import calibration_error, score
from datamux.tasks.labels import Labels
from datamux.tasks.rows import Rows
from datamux.train.extra_losses import EXTRA_LOSSES, key_penalty
from datamux.train.losses import TaskObjective
from datamux.train.recipe import parse_recipe
from datamux.train.trainer import repeat_some

N = 3


def build(task="sequence-classification", **options):
    torch.manual_seed(0)
    return multiplex(tiny_encoder(), N, task=task, num_labels=4, **options).train()


def step(model, objective, rows, labels):
    model.objective = objective
    loss = model(**rows, labels=labels).loss
    loss.backward()
    return float(loss.detach()), objective.metrics


@pytest.mark.parametrize("task", ["sequence-classification", "token-classification"])
def test_contrastive(task):
    model, rows = build(task), random_rows(2 * N)
    reads = model.mux.head.reads
    encoded = model.encode(**rows)
    z = model.mux.read_rows(encoded, reads)
    states = torch.randn_like(z)
    inputs = rows | {"labels": None}
    found = EXTRA_LOSSES["contrastive"](model, encoded, inputs, states)
    mask = rows["attention_mask"].bool()[:, : z.shape[1]]
    cosines = F.cosine_similarity(z[mask].unsqueeze(1), states[mask].unsqueeze(0), dim=-1)
    torch.testing.assert_close(found, F.cross_entropy(20 * cosines, torch.arange(len(cosines))), atol=1e-5, rtol=1e-4)
    same = EXTRA_LOSSES["contrastive"](model, encoded, inputs, z.detach())
    assert same < found, "states that agree are rewarded"
    with pytest.raises(ValueError, match=r"set task\.teacher"):
        EXTRA_LOSSES["contrastive"](model, encoded, inputs, None)


@pytest.mark.parametrize("demultiplexer", ["reversible", "index"])
def test_orthogonality(demultiplexer):
    """Of the tokens only: the prefix that Index Embedding adds has no members to compare."""
    model, rows = build(multiplexer="reversible", demultiplexer=demultiplexer), random_rows(2 * N)
    encoded = model.encode(**rows)
    found = EXTRA_LOSSES["orthogonality"](model, encoded, rows, None)
    vectors = model.backbone.words(rows["input_ids"].view(2, N, 7))
    small = model.mux.multiplexer.reduce(vectors)
    present = rows["attention_mask"].bool().view(2, N, 7)
    values = [
        F.cosine_similarity(small[g, i, t], small[g, j, t], dim=0).abs()
        for g in range(2)
        for t in range(7)
        for i in range(N)
        for j in range(i)
        if present[g, i, t] and present[g, j, t]
    ]
    torch.testing.assert_close(found, torch.stack(values).mean(), atol=1e-4, rtol=1e-3)
    full = {"input_ids": rows["input_ids"].clamp(min=5)}
    without_mask = EXTRA_LOSSES["orthogonality"](model, model.encode(**full), full, None)
    with_mask = full | {"attention_mask": torch.ones_like(full["input_ids"])}
    torch.testing.assert_close(
        without_mask, EXTRA_LOSSES["orthogonality"](model, model.encode(**with_mask), with_mask, None)
    )
    other = build()
    with pytest.raises(ValueError, match="is for the reversible multiplexer"):
        EXTRA_LOSSES["orthogonality"](other, other.encode(**rows), rows, None)


def test_key_orthonormality():
    assert float(key_penalty(torch.eye(4, 9))) == pytest.approx(0)
    keys = torch.randn(3, 5)
    pairs = [F.cosine_similarity(keys[i], keys[j], dim=0) ** 2 for i, j in ((0, 1), (0, 2), (1, 2))]
    expected = torch.stack(pairs).mean() + ((keys.norm(dim=1) - 1) ** 2).mean()
    torch.testing.assert_close(key_penalty(keys), expected)
    model, rows = build(multiplexer="learned_hadamard"), random_rows(N)
    found = EXTRA_LOSSES["key_orthonormality"](model, model.encode(**rows), rows, None)
    keys = model.mux.multiplexer.keys
    torch.testing.assert_close(found, key_penalty(keys / keys.detach().norm(dim=1).mean()))
    model = build(multiplexer="learned_ortho")
    matrices = torch.nn.init.normal_(model.mux.multiplexer.keys)
    found = EXTRA_LOSSES["key_orthonormality"](model, model.encode(**rows), rows, None)
    torch.testing.assert_close(found, torch.stack([key_penalty(matrix) for matrix in matrices]).mean())
    assert key_penalty(build(multiplexer="learned_ortho").mux.multiplexer.keys).item() == pytest.approx(0, abs=1e-6)
    with pytest.raises(ValueError, match="gaussian_hadamard has none"):
        EXTRA_LOSSES["key_orthonormality"](build(), None, rows, None)


@pytest.mark.parametrize("multiplexer", ["learned_hadamard", "learned_circular", "learned_ortho"])
@torch.no_grad()
def test_keys_that_have_learned_nothing_are_hardly_penalised(multiplexer):
    """Whatever length they start with: learned_hadamard's keys have sqrt(d). Longer and equal keys are penalised."""
    torch.manual_seed(0)
    wide = tf.BertConfig(vocab_size=9, hidden_size=240, num_hidden_layers=1, num_attention_heads=2)
    model = multiplex(tf.BertModel(wide), N, num_labels=4, multiplexer=multiplexer)
    keys = model.mux.multiplexer.keys
    assert float(EXTRA_LOSSES["key_orthonormality"](model, None, {}, None)) < 0.03
    keys.mul_(2)
    assert 0.9 < float(EXTRA_LOSSES["key_orthonormality"](model, None, {}, None)) < 1.1, "twice as long"
    keys.div_(2)[..., 1:, :] = keys[..., :1, :]
    assert 0.9 < float(EXTRA_LOSSES["key_orthonormality"](model, None, {}, None)) < 1.1, "all the same"


def test_weights_count_as_much_as_is_said():
    model, rows, labels = build(multiplexer="learned_hadamard"), random_rows(2 * N), torch.arange(2 * N) % 4
    model.eval()
    for module in (model, model.mux):  # training mode for the objective, without dropout
        module.training = True
    before, _ = step(model, TaskObjective(alpha=0), rows, labels)
    after, metrics = step(model, TaskObjective(alpha=0, extra_losses={"key_orthonormality": 0.5}), rows, labels)
    assert after == pytest.approx(before + 0.5 * metrics["key_orthonormality"], rel=1e-5)


def test_a_recipe_names_losses_that_exist():
    assert parse_recipe({"task": {"extra_losses": {"contrastive": 1}}}).task.extra_losses == {"contrastive": 1}
    with pytest.raises(ValueError, match=r"unknown loss in task.extra_losses 'contrast'.*Did you mean 'contrastive'"):
        parse_recipe({"task": {"extra_losses": {"contrast": 1.0}}})
    with pytest.raises(ValueError, match="must be a weight of at least 0, got -1"):
        parse_recipe({"task": {"extra_losses": {"contrastive": -1}}})


@pytest.mark.parametrize("n", [2, 4, 8])
def test_repetition_fills_whole_groups_and_leaves_no_row_out(n):
    """A step reads as many rows as without repetition, so that methods and rivals see the same number of them."""
    torch.manual_seed(0)
    ids = torch.arange(3000).unsqueeze(1)
    batch = {"input_ids": ids, "labels": ids[:, 0]}
    found = repeat_some(batch, n, 0.3)
    assert torch.equal(found["input_ids"][:, 0], found["labels"])
    groups = found["labels"].view(-1, n)
    repeated = (groups == groups[:, :1]).all(1)
    assert 0.24 < repeated.float().mean() < 0.36
    assert torch.equal(found["labels"].unique(), batch["labels"]), "every row"
    others = groups[~repeated][:-1]
    assert torch.equal(others, others[:, :1] + torch.arange(n)), "neighbours stay neighbours"


def test_repetition_in_the_last_group():
    rows = {"input_ids": torch.arange(5).unsqueeze(1)}
    assert repeat_some(rows, 3, 1.0)["input_ids"][:, 0].tolist() == [i for i in range(5) for _ in range(3)]
    assert repeat_some(rows, 3, 0.0)["input_ids"][:, 0].tolist() == [0, 1, 2, 3, 4, 3]
    assert repeat_some(rows, 1, 0.5)["input_ids"][:, 0].tolist() == [0, 1, 2, 3, 4]


def test_the_calibration_error():
    sure = np.log(np.array([[0.9, 0.1]] * 10))
    assert calibration_error(sure, np.array([0] * 9 + [1])) == pytest.approx(0, abs=1e-9)
    assert calibration_error(sure, np.zeros(10)) == pytest.approx(0.1)
    both = np.concatenate([sure, np.log(np.array([[0.4, 0.6]] * 10))])
    truth = np.array([0] * 10 + [0] * 10)  # the first ten are right with 0.9, the others wrong with 0.6
    assert calibration_error(both, truth) == pytest.approx((0.1 + 0.6) / 2)
    labels = Labels(("a", "b"), "single_label_classification")
    assert score(both, truth, labels)["ece"] == pytest.approx(0.35)
    tags = score(both.reshape(2, 10, 2), np.where(np.arange(20) < 10, 0, -100).reshape(2, 10), labels)
    assert tags["ece"] == pytest.approx(0.1), "only words with a label count"


@pytest.mark.parametrize("names", [("O", "B"), ("A", "B")], ids=["with-O", "without-O"])
def test_words_that_were_cut_off_have_no_confidence(names, monkeypatch):
    """They count as wrong in the score, and not at all in the calibration error."""
    confidence, rows = 0.9, Rows([[7, 8], [7, 8, 9]], pad_id=0, token_labels=[[0, 0], [0, 0, 0]])
    rows.cut_labels = [[1, 1, 1], []]
    sure = torch.tensor([confidence, 1 - confidence]).log()
    answers = [sure.expand(3, 2), sure.expand(3, 2)]  # all three positions of a batch, padding included
    monkeypatch.setattr(quality, "predict_rows", lambda *given, **options: (answers, [0, 0]))
    labels = Labels(names, "single_label_classification")
    (found,) = quality.measure_quality(None, rows, labels, group_sizes=[1])
    assert found.other["ece"] == pytest.approx(1 - confidence)
    assert found.other["accuracy"] == 5 / 8
