"""The control that answers each instance from its neighbour's part of the mixture, and then puts everything back."""

import json

import pytest
import torch
import transformers as tf

import datamux
from command_line import run as run_command
from conftest import random_rows, tiny_encoder
from datamux.evaluate.neighbour_control import answered_from_neighbour
from datamux.inference.runtime import TorchRuntime

N = 3


@pytest.fixture
def runtime():
    torch.manual_seed(0)
    return TorchRuntime(datamux.multiplex(tiny_encoder(), N))


def test_neighbours_exchange_their_answers_while_it_lasts(runtime):
    batch = random_rows(2 * N)
    before = runtime.logits(batch, N)
    with answered_from_neighbour(runtime):
        exchanged = runtime.logits(batch, N)
    torch.testing.assert_close(exchanged, before.view(2, N, -1).roll(1, dims=1).flatten(0, 1))
    assert not torch.allclose(exchanged, before)
    torch.testing.assert_close(runtime.logits(batch, N), before)


def test_it_ends_after_an_error(runtime):
    batch = random_rows(N)
    before = runtime.logits(batch, N)
    with pytest.raises(KeyError), answered_from_neighbour(runtime):
        raise KeyError
    torch.testing.assert_close(runtime.logits(batch, N), before)


def test_it_needs_a_neighbour(runtime):
    plain = TorchRuntime(tf.AutoModelForSequenceClassification.from_config(tiny_encoder().config))
    for alone in (plain, TorchRuntime(datamux.multiplex(tiny_encoder(), 1))):
        with pytest.raises(ValueError, match="several slots"), answered_from_neighbour(alone):
            pass


def test_the_command_line_scores_the_control(predictor, tmp_path):
    """`predictor` saves a model with three slots; in a group of one there is no neighbour, so 1 is left out."""
    (tmp_path / "rows.csv").write_text("text,label\n" + "good film,pos\nbad film,neg\n" * 6)
    words = ("evaluate", tmp_path / "model", "--task", tmp_path / "rows.csv", "--answer-from-neighbour", "--json")
    done = run_command(*words)
    record = json.loads(done.stdout)
    assert record["evaluation"]["answer_from_neighbour"]
    assert [row["group_size"] for row in record["results"]] == [2, 3]
    done = run_command(*words, "-k", "1")
    assert (done.returncode, "group size of 2 or more" in done.stderr) == (2, True)
