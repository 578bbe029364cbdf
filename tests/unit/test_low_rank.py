"""Low-rank updates act on mixtures of several instances, and never on a single one."""

import copy
import warnings

import pytest
import torch

from conftest import ENCODERS, random_rows, tiny_encoder
from datamux import DEMULTIPLEXERS, MULTIPLEXERS, multiplex
from datamux.hub.loading import load_model

N = 3


def build(low_rank, family="bert", **options):
    torch.manual_seed(0)
    return multiplex(tiny_encoder(family), N, num_labels=4, low_rank=low_rank, **options)


def learned(model):
    """The updates after something was learned. They start at zero."""
    for update in model.backbone.updates.values():
        torch.nn.init.normal_(update.up)
    return model


@pytest.mark.parametrize("mux_layer", [0, 1])
@pytest.mark.parametrize("family", ENCODERS)
@torch.no_grad()
def test_a_single_instance_is_untouched_and_a_mixture_is_not(family, mux_layer):
    if mux_layer and family in ("albert", "modernbert", "mpnet", "deberta-v2"):
        pytest.skip("datamux cannot cut this family in two")
    without, model = build(0, family, mux_layer=mux_layer), build(2, family, mux_layer=mux_layer)
    rows = random_rows(2 * N)
    assert torch.equal(model(**rows).logits, without(**rows).logits), "updates start at zero"
    learned(model)
    assert torch.equal(model(**rows, group_size=1).logits, without(**rows, group_size=1).logits)
    for k in (2, N):
        assert not torch.allclose(model(**rows, group_size=k).logits, without(**rows, group_size=k).logits)


@torch.no_grad()
def test_an_instance_that_is_left_over_is_untouched():
    without, model = build(0), learned(build(2))
    rows = random_rows(N + 1)
    found = model(**rows).logits
    torch.testing.assert_close(found[-1], without(**rows).logits[-1])
    assert not torch.allclose(found[:-1], without(**rows).logits[:-1])


@pytest.mark.parametrize("mux", MULTIPLEXERS)
@pytest.mark.parametrize("demux", DEMULTIPLEXERS)
@torch.no_grad()
def test_every_strategy_takes_them(mux, demux):
    parts = {"multiplexer": mux, "demultiplexer": demux}
    without, model = build(0, **parts), learned(build(2, **parts))
    rows = random_rows(N)
    assert torch.equal(model(**rows, group_size=1).logits, without(**rows, group_size=1).logits)
    assert not torch.allclose(model(**rows).logits, without(**rows).logits)


def test_the_formula():
    model = learned(build(2))
    x = torch.randn(2, 7, 24)
    key = "encoder_layer_0_attention_self_query"
    update = model.backbone.updates[key]
    linear = model.backbone.encoder.encoder.layer[0].attention.self.query
    updated = model.backbone._updated[0].encoder.layer[0].attention.self.query
    torch.testing.assert_close(updated(x), linear(x) + x @ (update.down @ update.up), atol=1e-5, rtol=1e-5)
    assert not any("pooler" in name or "embeddings" in name for name in model.backbone.updates)
    assert len(model.backbone.updates) == 2 * 6, "all six matrices of both layers"
    lower = build(2, mux_layer=1).backbone.updates
    assert len(lower) == 6, "layers below the mixture see single instances"


def test_they_are_saved_and_follow_copies_and_modes(tmp_path):
    model = learned(build(2))
    model.save_pretrained(tmp_path)
    loaded, rows = load_model(tmp_path), random_rows(2 * N)
    other = copy.deepcopy(loaded)
    with torch.no_grad():
        for one in (loaded, other):
            torch.testing.assert_close(one(**rows).logits, model(**rows).logits)
        other.backbone.updates["encoder_layer_0_attention_self_query"].up.mul_(2)
        other.backbone.encoder.encoder.layer[1].output.dense.bias.add_(1)
        assert not torch.allclose(other(**rows).logits, model(**rows).logits)
        torch.testing.assert_close(loaded(**rows).logits, model(**rows).logits)
    view = model.train().backbone._updated[0]
    assert all(module.training for module in view.modules())
    assert not any(module.training for module in model.eval().backbone._updated[0].modules())


def test_they_learn():
    model = build(2).train()
    rows = random_rows(2 * N)
    model(**rows, labels=torch.arange(2 * N) % 4).loss.backward()
    assert all(update.up.grad.abs().sum() > 0 for update in model.backbone.updates.values())
    model.zero_grad()
    model(**rows, labels=torch.arange(2 * N) % 4, group_size=1).loss.backward()
    assert all(update.up.grad is None for update in model.backbone.updates.values())


def test_the_projection_of_narrow_word_vectors_is_updated_if_it_runs_the_mixture():
    """ELECTRA widens its word vectors: after they are mixed with mux_layer = 0, and before with mux_layer = 1."""
    assert "embeddings_project" in build(2, "electra").backbone.updates
    assert "embeddings_project" not in build(2, "electra", mux_layer=1).backbone.updates


@pytest.mark.parametrize("mux_layer", [0, 1])
def test_gradient_checkpointing_reaches_the_updated_layers(mux_layer):
    def gradients(model):
        torch.manual_seed(0)
        model(**random_rows(N), labels=torch.arange(N) % 4).loss.backward()
        return [update.up.grad for update in model.backbone.updates.values()]

    model, other = learned(build(2, mux_layer=mux_layer)).train(), learned(build(2, mux_layer=mux_layer)).train()
    other.load_state_dict(model.state_dict())
    runs = []
    layer = model.backbone.encoder.encoder.layer[1].intermediate
    layer.register_forward_hook(lambda *given: runs.append(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of transformers have another name for it
        model.gradient_checkpointing_enable()
        model.gradient_checkpointing_disable()
        model.gradient_checkpointing_enable()
    for one, two in zip(gradients(model), gradients(other), strict=True):
        torch.testing.assert_close(one, two)
    assert len(runs) == 2, "once forward, and once more backward"


def test_a_rank_is_not_negative():
    with pytest.raises(ValueError, match="low_rank must be 0"):
        build(-1)
