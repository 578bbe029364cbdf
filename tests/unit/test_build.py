"""From a recipe to a model: what cannot be built is refused."""

from dataclasses import replace

import pytest
import torch
import transformers as tf

from conftest import ENCODERS, random_rows, tiny_encoder
from datamux.backbones.halves import LAYERS
from datamux.train.build import build, check_layers, encoder_of_recipe, in_bf16
from datamux.train.recipe import ModelSettings, RunSettings


@pytest.fixture
def start(tmp_path) -> str:
    tiny_encoder().save_pretrained(tmp_path / "start")
    return str(tmp_path / "start")


@pytest.mark.parametrize("kept", [3, -1])
def test_only_layers_that_are_there_are_kept(start, kept):
    with pytest.raises(ValueError, match=rf"model\.keep_layers must be 1 to 2, the layers of .*start, got {kept}"):
        build(ModelSettings(start=start, keep_layers=kept), "retrieval", vocab_size=61)
    one = build(ModelSettings(start=start, keep_layers=1), "retrieval", vocab_size=61)
    assert one.config.backbone_config.num_hidden_layers == 1


def test_layers_are_kept_of_a_start_model():
    with pytest.raises(ValueError, match=r"model\.keep_layers cuts a start model"):
        build(ModelSettings(keep_layers=1, layers=2, hidden=24, heads=2), "retrieval", vocab_size=61)


@pytest.mark.parametrize("family", [name for name in ENCODERS if name not in LAYERS])
def test_who_cannot_be_mixed_after_a_layer_is_told_what_to_do(tmp_path, family):
    tiny_encoder(family).save_pretrained(tmp_path)
    wanted = rf"cannot be mixed after layer 1, .* the layers of '{family}' are .* --set model.mux_layer=0, or .*tune"
    for settings in (ModelSettings(start=str(tmp_path)), ModelSettings(architecture=family)):
        with pytest.raises(ValueError, match=wanted):
            check_layers(replace(settings, mux_layer=1))
        check_layers(settings)


@pytest.mark.parametrize("family", LAYERS)
def test_a_mixture_needs_layers_on_both_sides(tmp_path, family):
    tiny_encoder(family).save_pretrained(tmp_path)
    settings = ModelSettings(start=str(tmp_path), mux_layer=1)
    check_layers(settings)
    for wrong in (replace(settings, mux_layer=2), replace(settings, keep_layers=1)):
        with pytest.raises(ValueError, match=r"mux_layer must be 0 to \d for an encoder of \d layers"):
            check_layers(wrong)


@pytest.mark.parametrize("family", ENCODERS)
def test_dropout_reaches_every_family(tmp_path, family):
    tiny_encoder(family).save_pretrained(tmp_path)
    settings = ModelSettings(start=str(tmp_path), dropout=0.37)
    encoder = build(settings, "retrieval", vocab_size=61).backbone.encoder
    rates = {module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)}
    assert rates == {0.37}


def test_dropout_of_a_new_distilbert():
    config = encoder_of_recipe(ModelSettings(architecture="distilbert", dropout=0.37), 61)
    assert (config.dropout, config.attention_dropout) == (0.37, 0.37)


def test_a_decoder_is_refused(tmp_path):
    gpt2 = tf.GPT2Config(vocab_size=61, n_embd=24, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2)
    tf.AutoModel.from_config(gpt2).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="GPT2Model is a decoder"):
        build(ModelSettings(start=str(tmp_path)), "retrieval", vocab_size=61)


@pytest.mark.parametrize("quick", [True, False])
def test_half_precision_where_the_machine_is_quick_at_it(monkeypatch, quick):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": True, "amx_bf16": quick}, raising=False)
    assert in_bf16(RunSettings()) is quick
    assert in_bf16(RunSettings(bf16=True))
    assert not in_bf16(RunSettings(bf16=False))


def test_a_model_with_fewer_slots_starts_from_the_first_slots_of_a_larger_one(tmp_path):
    shape = ModelSettings(layers=1, hidden=24, heads=2, num_instances=5, multiplexer="sign")
    large = build(shape, "retrieval", vocab_size=61, seed=3)
    with torch.no_grad():
        large.mux.demultiplexer.gates += 1  # as if it had been trained
    large.save_pretrained(tmp_path)
    small = build(replace(shape, start=str(tmp_path), num_instances=3), "retrieval", vocab_size=61, seed=4)
    for name, value in small.state_dict().items():
        given = large.state_dict()[name]
        torch.testing.assert_close(value, given[:3] if given.shape != value.shape else given, msg=name)
    rows = random_rows(6)
    torch.testing.assert_close(small.eval()(**rows, group_size=3).logits, large.eval()(**rows, group_size=3).logits)


def test_a_model_with_more_slots_says_that_its_mixing_starts_anew(tmp_path, caplog):
    shape = ModelSettings(layers=1, hidden=24, heads=2, num_instances=3, multiplexer="sign")
    build(shape, "retrieval", vocab_size=61).save_pretrained(tmp_path)
    build(replace(shape, start=str(tmp_path), num_instances=5), "retrieval", vocab_size=61)
    assert "not taken from the start model: mux.demultiplexer, mux.multiplexer" in caplog.text


def test_a_new_demultiplexer_keeps_only_the_prefix(tmp_path):
    """As in the published code: the warm-up's demultiplexer is not used, but the prefix is a part of the input."""
    options = {"layers": 1, "hidden": 16, "heads": 2, "num_instances": 3, "demultiplexer": "index"}
    start = build(ModelSettings(**options), "retrieval", vocab_size=61, seed=1)
    start.save_pretrained(tmp_path)
    for new in (False, True):
        settings = ModelSettings(**options, start=str(tmp_path), new_demultiplexer=new)
        weights = build(settings, "retrieval", vocab_size=61, seed=2).state_dict()
        same = {name: torch.equal(value, weights[name]) for name, value in start.state_dict().items()}
        assert same["mux.demultiplexer.tokens"]
        assert same["mux.multiplexer.keys"]
        assert same["mux.demultiplexer.from_state.weight"] is not new
