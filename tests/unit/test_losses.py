"""The objectives against their formulas."""

import pytest
import torch
from torch.nn import functional as F

from conftest import VOCAB, random_rows, tiny_encoder
from datamux import multiplex
from datamux.tasks.rows import Rows
from datamux.train.losses import (
    RetrievalObjective,
    TaskObjective,
    at_most,
    class_weights,
    inconsistency,
    logit_distance,
    one_instance_per_position,
    read_columns,
    retrieval_loss,
    state_distance,
    weighted_loss,
)
from datamux.train.trainer import mask_words, take_rows, twice

N = 3


@pytest.fixture
def model():
    torch.manual_seed(0)
    return multiplex(tiny_encoder(), N, task="retrieval")


def test_retrieval_over_all_words(model):
    z, words = torch.randn(5, 7, 24), torch.randint(VOCAB, (5, 7))
    which = torch.rand(5, 7) > 0.5
    loss, accuracy = retrieval_loss(model, z, words, which, candidates=None)
    scores = model.retrieval(z, model.get_input_embeddings().weight)[which]
    torch.testing.assert_close(loss, F.cross_entropy(scores, words[which]))
    assert accuracy == pytest.approx(float((scores.argmax(-1) == words[which]).float().mean()))


def test_retrieval_over_candidates_that_cover_the_vocabulary_is_the_same(model):
    z, words = torch.randn(50, 7, 24), torch.arange(350).view(50, 7) % VOCAB  # every word occurs
    which = torch.ones(50, 7, dtype=torch.bool)
    few, _ = retrieval_loss(model, z, words, which, candidates=1)
    every, _ = retrieval_loss(model, z, words, which, candidates=None)
    torch.testing.assert_close(few, every)


def test_one_random_instance_a_position():
    mask = torch.ones(2 * N, 400, dtype=torch.bool)
    chosen = one_instance_per_position(mask, N).view(2, N, 400)
    assert (chosen.sum(1) == 1).all()
    assert (chosen.float().mean((0, 2)) - 1 / N).abs().max() < 0.1, "each slot as often as the others"
    assert not (one_instance_per_position(torch.zeros(5, 4, dtype=torch.bool), N)).any()


def test_at_most():
    mask = torch.rand(100, 100) > 0.2
    few = at_most(mask, 500)
    assert not (few & ~mask).any()
    assert 400 < few.sum() < 600
    assert torch.equal(at_most(mask, 10**6), mask)


@pytest.mark.parametrize("demultiplexer", ["gate", "index"])  # one without a prefix, and one with
def test_some_columns_are_read_like_all_of_them(demultiplexer):
    model = multiplex(tiny_encoder(), N, demultiplexer=demultiplexer, task="retrieval").eval()
    encoded = model.encode(**random_rows(2 * N))
    columns = torch.tensor([4, 0, 3])
    some, every = read_columns(model, encoded, columns), read_columns(model, encoded, None)
    torch.testing.assert_close(some, every[:, columns])


@pytest.mark.parametrize("kind", ["all", "one"])
def test_the_retrieval_objective_trains_everything(model, kind):
    model.train()
    model.objective = RetrievalObjective(kind=kind)
    rows = random_rows(2 * N)
    loss = model(**rows, labels=rows["input_ids"]).loss
    loss.backward()
    assert model.objective.metrics["retrieval_loss"] == pytest.approx(float(loss.detach()))
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0
    assert model.retrieval.dense.weight.grad.abs().sum() > 0


def test_a_teachers_words_and_sentences_count_beside_retrieval_as_much_as_is_said(model):
    model.train()
    objective = RetrievalObjective(weight=0.25, match_words=2.0, match_sentences=3.0, positions=10**6)
    model.objective = objective
    rows = random_rows(2 * N)
    states = torch.randn(2 * N, 7, 10) * rows["attention_mask"][..., None]
    objective.targets = {"teacher_states": states, "teacher_vectors": torch.randn(2 * N, 24)}
    loss = float(model(**rows, labels=rows["input_ids"]).loss.detach())
    found = objective.metrics
    assert 0 < found["word_distance"] < 2
    assert 0 < found["sentence_distance"] < 2
    parts = 0.25 * found["retrieval_loss"] + 2 * found["word_distance"] + 3 * found["sentence_distance"]
    assert loss == pytest.approx(parts, rel=1e-5)


def test_every_row_twice_among_other_neighbours():
    rows = random_rows(7)
    both, twins = twice(rows, N)
    assert len(both["input_ids"]) == 12, "whole groups only"
    assert torch.equal(both["input_ids"][:6], both["input_ids"][twins])
    assert torch.equal(both["attention_mask"][:6], both["attention_mask"][twins])
    assert sorted(twins.tolist()) == list(range(6, 12))
    few, none = twice(random_rows(2), N)
    assert none is None
    assert len(few["input_ids"]) == 2


def test_inconsistency_is_the_symmetric_divergence_of_the_two_answers():
    logits, twins = torch.randn(8, 4), torch.tensor([5, 4, 7, 6])
    p, q = logits[:4].softmax(-1), logits[twins].softmax(-1)
    both = [F.kl_div(b.log(), a, reduction="batchmean") for a, b in ((p, q), (q, p))]
    torch.testing.assert_close(inconsistency(logits, twins, None, None), sum(both) / 2)
    same = torch.cat([logits[:4], logits[:4]])
    assert float(inconsistency(same, torch.arange(4, 8), None, None)) == pytest.approx(0, abs=1e-6)
    squared = inconsistency(logits, twins, None, "regression")
    torch.testing.assert_close(squared, F.mse_loss(logits[:4], logits[twins]))


def test_inconsistency_of_tags_counts_labelled_words_only():
    logits, twins = torch.randn(4, 5, 3), torch.tensor([2, 3])
    labels = torch.full((4, 5), -100)
    labels[:, 1] = 0
    wanted = inconsistency(logits[:, 1], twins, None, None)
    torch.testing.assert_close(inconsistency(logits, twins, labels, None), wanted)


def test_training_with_consistency_asks_every_row_twice(model):
    model.train()
    objective = RetrievalObjective(consistency=2.0)
    model.objective = objective
    rows, objective.twins = twice(random_rows(2 * N), N)
    loss = float(model(**rows, labels=rows["input_ids"]).loss.detach())
    found = objective.metrics
    assert found["inconsistency"] > 0
    assert loss == pytest.approx(found["retrieval_loss"] + 2 * found["inconsistency"], rel=1e-5)


def test_masked_words_come_from_context(model):
    model.train()
    model.objective = RetrievalObjective()
    ids = torch.randint(5, VOCAB, (2 * N, 7))
    masked = mask_words(ids, torch.ones_like(ids), 0.3, mask_id=4)
    assert 0.05 < (masked == 4).float().mean() < 0.6
    model(input_ids=masked, labels=ids).loss.backward()
    assert set(model.objective.metrics) == {
        "retrieval_loss",
        "retrieval_accuracy",
        "masked_loss",
        "masked_accuracy",
    }


def test_task_objective_is_the_papers_sum():
    torch.manual_seed(0)
    model = multiplex(tiny_encoder(), N, retrieval_head=True).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    rows, labels = random_rows(2 * N), torch.arange(2 * N) % 2
    plain = model(**rows, labels=labels).loss.detach()
    model.objective = TaskObjective(alpha=0.1, candidates=10_000)
    total = model(**rows, labels=labels).loss
    metrics = model.objective.metrics
    assert metrics["task_loss"] == pytest.approx(float(plain), rel=1e-4)
    assert float(total.detach()) == pytest.approx(
        0.9 * metrics["task_loss"] + 0.1 * metrics["retrieval_loss"], rel=1e-4
    )
    model.eval()
    assert float(model(**rows, labels=labels).loss.detach()) == pytest.approx(float(plain), rel=1e-4), (
        "evaluation is the task alone"
    )


def test_a_teacher_that_agrees_costs_nothing():
    logits, states = torch.randn(6, 4), torch.randn(6, 7, 24)
    assert float(logit_distance(logits, logits, None, 2.0)) == pytest.approx(0, abs=1e-6)
    assert float(state_distance(states, 3 * states, torch.ones(6, 7, dtype=torch.bool))) == pytest.approx(0, abs=1e-6)
    tags = torch.full((6, 7), -100)
    tags[:, 1] = 2
    other = torch.randn(6, 7, 4)
    expected = logit_distance(other[:, 1], other[:, 1] * 2, None, 2.0)
    torch.testing.assert_close(logit_distance(other, other * 2, tags, 2.0), expected)


def test_take_rows_drops_empty_columns():
    batch = {
        "input_ids": torch.tensor([[1, 2, 0, 0], [1, 0, 0, 0], [1, 2, 3, 4]]),
        "attention_mask": torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]]),
        "labels": torch.tensor([0, 1, 1]),
    }
    taken = take_rows(batch, 2)
    assert taken["input_ids"].tolist() == [[1, 2], [1, 0]]
    assert taken["labels"].tolist() == [0, 1]


def test_rows_taken_from_a_longer_batch_can_be_viewed_flat():
    rows = Rows([[5] * 9, [6, 7], [8, 9, 10]], pad_id=0, token_labels=[[1] * 9, [0, 1], [1, 0, 1]])
    taken = take_rows(rows.batch([1, 2, 0]), 2)
    assert taken["labels"].view(-1).tolist() == [0, 1, -100, 1, 0, 1], "the Hugging Face loss for tags views them so"


def test_rare_labels_count_more_and_the_mean_row_counts_one():
    counts = torch.tensor([90, 9, 1])
    even, full = class_weights(counts, 0.0), class_weights(counts, 1.0)
    torch.testing.assert_close(even, torch.ones(3))
    torch.testing.assert_close(full * counts, torch.full((3,), 100 / 3))
    half = class_weights(counts, 0.5)
    torch.testing.assert_close(half[2] / half[0], torch.tensor(90.0).sqrt())
    torch.testing.assert_close((half * counts).sum(), torch.tensor(100.0))


def test_a_balanced_loss_is_the_mean_over_labels_and_leaves_out_what_is_ignored():
    logits, labels = torch.randn(4, 5, 3), torch.tensor([[0] * 5, [0] * 5, [0, 0, 1, 1, -100], [2, 1, 0, -100, -100]])
    weights = class_weights(torch.bincount(labels[labels >= 0], minlength=3), 1.0)
    found = weighted_loss(logits, labels, weights)
    by_label = [torch.nn.functional.cross_entropy(logits[labels == c], labels[labels == c]) for c in range(3)]
    torch.testing.assert_close(found, torch.stack(by_label).mean())
    rows = weighted_loss(logits[:, 0], labels[:, 0], torch.ones(3))
    torch.testing.assert_close(rows, torch.nn.functional.cross_entropy(logits[:, 0], labels[:, 0]))
