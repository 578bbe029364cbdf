"""What goes past the mixture: each instance's own vectors from before mixing, as far as the head reads them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from conftest import random_rows, tiny_encoder
from datamux import Multiplexed, build_demultiplexer, build_multiplexer, multiplex
from datamux.bypass import Bypass
from datamux.evaluate.swapped import swap_instances
from datamux.heads import SequenceHead
from datamux.hub import MuxForSequenceClassification
from datamux.inference.runtime import TorchRuntime
from datamux.train.build import copy_weights

HEADS = [
    ("sequence-classification", {"pooling": "mean"}),
    ("sequence-classification", {"pooling": "first"}),
    ("token-classification", {}),
]


def model_with(task="sequence-classification", weight=True, bypass=True, **options):
    model = multiplex(tiny_encoder(), 3, task=task, num_labels=4, bypass=bypass, **options)
    if weight and bypass:
        torch.manual_seed(3)
        nn.init.normal_(model.mux.bypass.weight)
    return model


@torch.no_grad()
@pytest.mark.parametrize("mux_layer", [0, 1])
@pytest.mark.parametrize(("task", "options"), HEADS)
def test_it_starts_as_if_there_were_none(task, options, mux_layer):
    options = options | {"mux_layer": mux_layer}
    torch.manual_seed(0)
    model = model_with(task, weight=False, **options)
    without = multiplex(tiny_encoder(), 3, task=task, num_labels=4, **options)
    fresh = copy_weights(without, model)
    assert fresh == ["mux.bypass"]
    rows = random_rows(8)
    torch.testing.assert_close(model(**rows).logits, without(**rows).logits)
    nn.init.normal_(model.mux.bypass.weight)
    assert (model(**rows).logits - without(**rows).logits).abs().max() > 0.05


@torch.no_grad()
@pytest.mark.parametrize(("task", "options"), HEADS)
def test_by_hand(task, options):
    model = model_with(task, **options)
    rows = random_rows(5)
    words = model.backbone.words(rows["input_ids"])  # i l d
    mask = rows["attention_mask"].bool()
    if task.startswith("token"):
        own = words
    elif options["pooling"] == "first":
        own = words[:, :1]
    else:
        own = torch.stack([w[m].mean(0, keepdim=True) for w, m in zip(words, mask, strict=True)])
    encoded = model.encode(**rows)
    z = model.mux.read_rows(encoded, model.mux.head.reads)
    expected = z + F.layer_norm(own, own.shape[-1:]) @ model.mux.bypass.weight.T
    found = encoded.grouping.ungroup(model.mux.read_for_head(encoded))
    if task.startswith("token"):
        expected, found = expected[mask], found[mask]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(("task", "options"), HEADS)
@pytest.mark.parametrize("demultiplexer", ["gate", "index"])
@pytest.mark.parametrize("padded", [True, False])
def test_mixing_a_little_at_a_time_changes_nothing(monkeypatch, task, options, demultiplexer, padded):
    model = model_with(task, demultiplexer=demultiplexer, **options)
    rows = random_rows(14)
    mask = rows["attention_mask"].bool()
    rows = rows if padded else {"input_ids": rows["input_ids"]}
    with torch.enable_grad():
        whole = model(**rows).logits.detach()
    monkeypatch.setattr("datamux.model.CACHED", 2 * 7 * 24)
    parts = model(**rows).logits
    if task.startswith("token"):
        parts, whole = parts[mask], whole[mask]
    torch.testing.assert_close(parts, whole, atol=1e-5, rtol=1e-4)


def test_saved_and_loaded(tmp_path):
    model = model_with()
    model.save_pretrained(tmp_path)
    again = MuxForSequenceClassification.from_pretrained(tmp_path)
    rows = random_rows(5)
    with torch.no_grad():
        torch.testing.assert_close(again(**rows).logits, model(**rows).logits)


def test_words_alone_can_be_learned_whatever_the_mixture_says():
    """With a network that says nothing, a head with a bypass still tells the words of an instance."""
    torch.manual_seed(0)
    mute = nn.Linear(12, 12)
    nn.init.zeros_(mute.weight)
    mixing = build_multiplexer("sign", 3, 12), build_demultiplexer("gate", 3, 12)
    model = Multiplexed(mute, *mixing, SequenceHead(12, 2, dropout=0.0), Bypass(12, 12, "pool"))
    x = torch.randn(60, 5, 12)
    labels = (x.mean(1)[:, 0] > 0).long()
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(150):
        loss = F.cross_entropy(model(x), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert (model(x).argmax(-1) == labels).float().mean() > 0.95


@pytest.mark.parametrize("bypass", [False, True])
def test_swapped_instances_answer_for_each_other_unless_they_pass_by(bypass):
    rows = random_rows(6)
    model = model_with(bypass=bypass)
    runtime = TorchRuntime(model)
    before = runtime.logits(rows, 3).view(2, 3, -1)
    swap_instances(runtime)
    after = runtime.logits(rows, 3).view(2, 3, -1)
    assert torch.allclose(after, before.roll(1, dims=1), atol=1e-5) == (not bypass)
    assert not torch.allclose(after, before, atol=1e-3)
    for plain in (tiny_encoder(), multiplex(tiny_encoder(), 1)):
        with pytest.raises(ValueError, match="not a plain"):
            swap_instances(TorchRuntime(plain))
