"""From a recipe to a model: what cannot be built is refused."""

import pytest
import torch
import transformers as tf

from conftest import ENCODERS, tiny_encoder
from datamux.train.build import build, in_bf16, new_encoder_config
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


@pytest.mark.parametrize("family", ENCODERS)
def test_dropout_reaches_every_family(tmp_path, family):
    tiny_encoder(family).save_pretrained(tmp_path)
    settings = ModelSettings(start=str(tmp_path), dropout=0.37)
    encoder = build(settings, "retrieval", vocab_size=61).backbone.encoder
    rates = {module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)}
    assert rates == {0.37}


def test_dropout_of_a_new_distilbert():
    config = new_encoder_config(ModelSettings(architecture="distilbert", dropout=0.37), 61)
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
