"""A sentence encoder as the teacher of a warm-up: what it says ends up at the right words and sentences."""

import pytest
import torch
from transformers import BertConfig, BertModel

import datamux.train.sentences as sentences_module
from datamux.hub.config import MuxConfig
from datamux.hub.models import MuxForRetrieval
from datamux.train.build import train_tokenizer
from datamux.train.sentences import copy_word_vectors, first_pieces, sentences_with_teacher, split_sentences

TEXTS = [
    "Anna lives in Paris and works at Acme.",
    "the film was not very good",
    "Was the plot of that film any good?",
    "It rained, and nobody came to see the band.",
]


def tiny(vocab_size, hidden):
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 40}
    return BertConfig(vocab_size=vocab_size, hidden_size=hidden, **sizes)


def teacher_in(folder, hidden=32):
    torch.manual_seed(0)
    tokenizer = train_tokenizer(TEXTS * 3, 120, lowercase=True)
    config = tiny(len(tokenizer), hidden)
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_paragraphs_become_sentences_without_headings():
    lines = ["= A heading =", 'He said "so it is." Then he left the room. Yes. In 1999 it was sold again.']
    assert list(split_sentences(lines)) == [
        'He said "so it is.',
        "Then he left the room.",
        "In 1999 it was sold again.",
    ]


def test_each_piece_learns_from_the_teachers_piece_that_begins_at_the_same_letter(tmp_path, monkeypatch):
    monkeypatch.setattr(sentences_module, "SHARD", 3)  # two shards
    name = teacher_in(tmp_path / "teacher")
    mine = train_tokenizer(TEXTS, 90, lowercase=False)
    found = sentences_with_teacher(TEXTS, name, mine, 16, tmp_path)
    assert len(found) == len(TEXTS)
    batch = found.batch(range(4))
    assert torch.equal(batch["labels"], batch["input_ids"])
    assert batch["teacher_vectors"].shape == (4, 16)
    rows = [
        mine.decode(ids[mask.bool()], skip_special_tokens=True)
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]
    assert sorted(row[:8] for row in rows) == sorted(text[:8] for text in TEXTS)

    # The same from the teacher itself, sentence by sentence, in full precision.
    teacher, theirs = BertModel.from_pretrained(name).eval(), sentences_module.load_tokenizer(name)
    directions = torch.load(next(tmp_path.glob("teacher-*/directions.pt")))
    mean, basis = directions[0], directions[1:].T
    text = next(text for text in TEXTS if text.startswith("Anna"))
    row = next(number for number, decoded in enumerate(rows) if decoded.startswith("Anna"))
    encoded = theirs(text, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0].tolist()
    states = (teacher(**encoded).last_hidden_state[0] - mean) @ basis
    torch.testing.assert_close(batch["teacher_vectors"][row].float(), states.mean(0), atol=0.05, rtol=0.05)
    own = mine(text, return_offsets_mapping=True)["offset_mapping"]
    begins = {start: place for place, (start, end) in enumerate(offsets) if end > start}
    compared = 0
    for place, (start, end) in enumerate(own):
        said = batch["teacher_states"][row, place].float()
        if end > start and start in begins:
            torch.testing.assert_close(said, states[begins[start], :128], atol=0.08, rtol=0.08)
            compared += 1
        else:
            assert not said.any(), "no piece of the teacher begins here, so nothing is to be matched"
    assert compared >= 8


def test_the_teacher_is_asked_once(tmp_path, monkeypatch):
    name = teacher_in(tmp_path / "teacher")
    mine = train_tokenizer(TEXTS, 90, lowercase=False)
    first = sentences_with_teacher(TEXTS, name, mine, 16, tmp_path)
    monkeypatch.setattr(sentences_module, "_ask", None)
    again = sentences_with_teacher(TEXTS, name, mine, 16, tmp_path)
    assert torch.equal(first.vectors, again.vectors)
    assert torch.equal(first.states, again.states)


def test_a_narrow_teacher_is_refused(tmp_path):
    with pytest.raises(ValueError, match="32 numbers, fewer than the 64"):
        sentences_with_teacher(
            TEXTS, teacher_in(tmp_path / "teacher"), train_tokenizer(TEXTS, 90, lowercase=False), 64, tmp_path
        )


def test_word_vectors_start_from_the_teachers(tmp_path):
    name = teacher_in(tmp_path / "teacher")
    mine = train_tokenizer(TEXTS, 90, lowercase=False)
    encoder = tiny(len(mine), 16)
    model = MuxForRetrieval(MuxConfig(backbone_config=encoder.to_dict(), num_instances=2))
    before = model.get_input_embeddings().weight.detach().clone()
    assert copy_word_vectors(model, mine, name) > 20
    after = model.get_input_embeddings().weight.detach()
    vocab = mine.get_vocab()
    assert torch.equal(after[vocab["[MASK]"]], before[vocab["[MASK]"]]) or "[MASK]".lower() in vocab
    assert not torch.equal(after[vocab["a"]], before[vocab["a"]])
    assert 0.3 < float(after.std() / before.std()) < 3


def test_sentences_until_they_have_enough_pieces():
    tokenizer = train_tokenizer(TEXTS, 90, lowercase=False)
    assert list(first_pieces(iter([]), tokenizer, 100)) == []
    assert len(list(first_pieces(iter(TEXTS * 1000), tokenizer, 100))) == 1000, "it counts thousand by thousand"
