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
    logit_distance,
    one_instance_a_position,
    retrieval_loss,
    state_distance,
)
from datamux.train.trainer import mask_words, take_rows

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
    chosen = one_instance_a_position(mask, N).view(2, N, 400)
    assert (chosen.sum(1) == 1).all()
    assert (chosen.float().mean((0, 2)) - 1 / N).abs().max() < 0.1, "each slot as often as the others"
    assert not (one_instance_a_position(torch.zeros(5, 4, dtype=torch.bool), N)).any()


def test_at_most():
    mask = torch.rand(100, 100) > 0.2
    few = at_most(mask, 500)
    assert not (few & ~mask).any()
    assert 400 < few.sum() < 600
    assert torch.equal(at_most(mask, 10**6), mask)


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


def test_a_teachers_states_count_beside_retrieval_as_much_as_is_said(model):
    model.train()
    model.objective = RetrievalObjective(teacher=tiny_encoder(seed=1).requires_grad_(False), weight=0.25)
    rows = random_rows(2 * N)
    loss = float(model(**rows, labels=rows["input_ids"]).loss.detach())
    found = model.objective.metrics
    assert 0 < found["state_distance"] < 2
    assert loss == pytest.approx(0.25 * found["retrieval_loss"] + 2 * found["state_distance"], rel=1e-5)


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
