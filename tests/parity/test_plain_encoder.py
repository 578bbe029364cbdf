"""One slot, nothing mixed: the multiplexed model is the plain encoder, for every encoder family."""

import pytest
import torch
import transformers as tf

from conftest import ENCODERS, VOCAB, random_rows, tiny_encoder
from datamux import multiplex

TOKEN_TYPES = {"bert", "electra", "albert", "deberta-v2"}


def states(model, **rows):
    """What the model's encoder says of each row, before any head."""
    token_types = rows.pop("token_type_ids", None)
    encoded = model.encode(rows["input_ids"], rows["attention_mask"], token_types)
    return model.mux.read_rows(encoded, "all")


def plain(encoder, **rows):
    return encoder(**rows).last_hidden_state


@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_one_slot_equals_the_plain_encoder(name):
    encoder = tiny_encoder(name)
    rows = random_rows(5)
    if name in ("roberta", "xlm-roberta", "mpnet"):  # these read padding off the ids
        rows["input_ids"] = torch.where(rows["attention_mask"] == 1, rows["input_ids"], encoder.config.pad_token_id)
    if name in TOKEN_TYPES:
        rows["token_type_ids"] = (torch.arange(7) > 2).long().expand(5, 7) * rows["attention_mask"]
    model = multiplex(encoder, 1, multiplexer="identity", demultiplexer="identity")
    tokens = rows["attention_mask"].bool()
    difference = (states(model, **rows) - plain(encoder, **rows))[tokens].abs().max()
    assert difference < 1e-5


@pytest.mark.parametrize("name", sorted(TOKEN_TYPES))
@torch.no_grad()
def test_each_instance_keeps_its_own_segments(name):
    """Two instances in one group, the second with other segments: its answer, and only the mixture, changes."""
    model = multiplex(tiny_encoder(name), 2)
    rows = random_rows(2)
    first = torch.zeros(2, 7, dtype=torch.long)
    second = first.clone()
    second[1, 3:] = 1
    same = model(**rows, token_type_ids=first).logits
    assert torch.allclose(model(**rows).logits, same, atol=1e-6), "no segments given means segment 0"
    assert (model(**rows, token_type_ids=second).logits - same).abs().max() > 1e-6
    # The mixture by hand: the difference is the second slot's key times the difference of the segments, nothing else.
    segments = next(m for n, m in model.named_modules() if n.endswith("token_type_embeddings")).weight
    grouped = {"x": rows["input_ids"].unsqueeze(0), "mask": None}
    mixed = [
        model.mux.multiplexer(model.backbone.embed(**grouped, token_type_ids=types.unsqueeze(0)))
        for types in (first, second)
    ]
    expected = (segments[1] - segments[0]) * model.mux.multiplexer.keys[1] / 2**0.5
    torch.testing.assert_close((mixed[1] - mixed[0])[0, 3:], expected.expand(4, -1), atol=1e-6, rtol=1e-4)
    assert (mixed[1] - mixed[0])[0, :3].abs().max() == 0


@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_every_encoder_is_multiplexed_saved_and_loaded(name, tmp_path):
    model = multiplex(tiny_encoder(name), 3, num_labels=4)
    rows = random_rows(5)
    model.save_pretrained(tmp_path)
    loaded = tf.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded(**rows).logits, model(**rows).logits, atol=1e-6, rtol=1e-5)
    assert loaded.get_input_embeddings().num_embeddings == VOCAB


def test_multiplex_from_a_folder_and_from_a_classifier(tmp_path):
    torch.manual_seed(0)
    config = tiny_encoder().config
    config.id2label, config.label2id = {0: "bad", 1: "fine", 2: "good"}, {"bad": 0, "fine": 1, "good": 2}
    classifier = tf.AutoModelForSequenceClassification.from_config(config)
    classifier.save_pretrained(tmp_path)
    words = classifier.get_input_embeddings().weight
    for source in (classifier, str(tmp_path)):
        model = multiplex(source, 2)
        assert torch.equal(model.get_input_embeddings().weight, words)
        assert model.config.id2label == {0: "bad", 1: "fine", 2: "good"}
        assert model(**random_rows(3)).logits.shape == (3, 3)
    assert model.get_input_embeddings().weight is not words, "the given model stays as it is"
    assert multiplex(classifier, 2, num_labels=5).config.num_labels == 5


def test_clear_errors():
    with pytest.raises(ValueError, match="multiplexed already"):
        multiplex(multiplex(tiny_encoder(), 2), 2)
    with pytest.raises(ValueError, match="allowed: retrieval, sequence-classification, token-classification"):
        multiplex(tiny_encoder(), 2, task="tagging")
    with pytest.raises(ValueError, match="Did you mean 'gaussian_hadamard'"):
        multiplex(tiny_encoder(), 2, multiplexer="gausian_hadamard")
    with pytest.raises(ValueError, match=r"unknown option 'multiplexor'.*Did you mean 'multiplexer'"):
        multiplex(tiny_encoder(), 2, multiplexor="ortho")
    with pytest.raises(ValueError, match="seed cannot be an option of a part"):
        multiplex(tiny_encoder(), 2, multiplexer_options={"seed": 1})
    with pytest.raises(ValueError, match="at least 1, got 0"):
        multiplex(tiny_encoder(), 0)
    with pytest.raises(ValueError, match=r"56 positions .* more than the 50"):
        multiplex(tiny_encoder(), 2)(**random_rows(2, tokens=56))
    with pytest.raises(ValueError, match="encoder-decoder"):
        multiplex(tf.BartModel(tf.BartConfig(d_model=16, encoder_layers=1, decoder_layers=1, vocab_size=40)), 2)
    with pytest.raises(ValueError, match="exactly one of"):
        multiplex(tiny_encoder(), 2)()
    with pytest.raises(ValueError, match=r"mask has shape \(2, 6\)"):
        multiplex(tiny_encoder(), 2)(torch.zeros(2, 7, dtype=torch.long), torch.ones(2, 6))
