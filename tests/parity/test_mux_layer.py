"""Mixing after some layers: the halves of an encoder are the encoder, and share its weights."""

import copy

import pytest
import torch

from conftest import ENCODERS, random_rows, tiny_encoder
from datamux import MuxForSequenceClassification, multiplex
from datamux.backbones.halves import LAYERS

FAMILIES = sorted(LAYERS)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_one_slot_is_the_plain_encoder(name):
    encoder = tiny_encoder(name)
    model = multiplex(encoder, 1, mux_layer=1, multiplexer="identity", demultiplexer="identity")
    rows = random_rows(5)
    if "roberta" in name:
        rows["input_ids"] = torch.where(rows["attention_mask"] == 1, rows["input_ids"], 1)
    encoded = model.encode(**rows)
    states = model.mux.read_rows(encoded, "all")
    tokens = rows["attention_mask"].bool()
    assert (states - encoder(**rows).last_hidden_state)[tokens].abs().max() < 1e-5


@pytest.mark.parametrize("name", FAMILIES)
def test_save_load_copy_and_train(name, tmp_path):
    torch.manual_seed(0)
    model = multiplex(tiny_encoder(name), 3, mux_layer=1)
    rows = random_rows(7)
    expected = model(**rows).logits
    torch.testing.assert_close(copy.deepcopy(model)(**rows).logits, expected)
    model.save_pretrained(tmp_path)
    loaded = MuxForSequenceClassification.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded(**rows).logits, expected, atol=1e-6, rtol=1e-5)
    assert len(list(model.parameters())) == len(list(multiplex(tiny_encoder(name), 3).parameters()))
    model.train()
    model(**rows, labels=torch.zeros(7, dtype=torch.long)).loss.backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_retrieval_and_a_prefix_work_too(name):
    model = multiplex(tiny_encoder(name), 3, mux_layer=1, task="retrieval", demultiplexer="index")
    rows = random_rows(4)
    found = model(**rows).logits
    assert found.shape == (4, 7, 61)
    ids, mask = rows["input_ids"][:3].unsqueeze(0), rows["attention_mask"][:3].bool().unsqueeze(0)
    vectors, mixed_mask = model.mux.demultiplexer.add_prefix(model.backbone.embed(ids, mask), mask)
    mixture = model.mux.multiplexer(vectors, mixed_mask)
    states = model.backbone.encode_mixture(mixture, mixed_mask.any(1), 3)
    z = model.mux.demultiplexer(states, 3, model.retrieval.reads, mask)
    expected = model.retrieval(z, model.backbone.words.weight)[0]
    torch.testing.assert_close(found[:3], expected, atol=1e-5, rtol=1e-4)
    alone = model(**{key: value[:1] for key, value in rows.items()}).logits
    assert (found[:1] - alone).abs().max() > 1e-4, "an answer depends on who shares the pass"


def test_the_lower_layers_run_alone():
    """With two layers and mux_layer = 1, changing a neighbour changes only what the upper layer makes of it."""
    model = multiplex(tiny_encoder(), 2, mux_layer=1)
    rows = random_rows(2)
    grouped = {name: x.unsqueeze(0) for name, x in rows.items()}
    alone = model.backbone.embed(grouped["input_ids"], grouped["attention_mask"].bool())
    other = grouped["input_ids"].clone()
    other[0, 1, 0] = 9
    changed = model.backbone.embed(other, grouped["attention_mask"].bool())
    torch.testing.assert_close(changed[0, 0], alone[0, 0])
    assert (changed[0, 1] - alone[0, 1]).abs().max() > 1e-3


def test_clear_errors():
    with pytest.raises(ValueError, match="mux_layer must be 0 to 1 for an encoder of 2 layers, got 2"):
        multiplex(tiny_encoder(), 2, mux_layer=2)
    for name in sorted(set(ENCODERS) - set(LAYERS)):
        with pytest.raises(ValueError, match="mux_layer is not available for"):
            multiplex(tiny_encoder(name), 2, mux_layer=1)
