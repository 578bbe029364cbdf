"""Published checkpoints: every step against the formulas of `published.py`, and what happens to other files."""

import copy
import itertools

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

import datamux
import published as reference
from datamux.hub.loading import load_config, load_model, load_tokenizer
from datamux.hub.published import checkpoint
from datamux.hub.published.checkpoint import LABELS
from published import KINDS, MUXES, N, config_fields, padded_rows, random_checkpoint, random_weights, write_checkpoint

VARIANTS = list(itertools.product(MUXES, ("index", "mlp"), KINDS))
variants = pytest.mark.parametrize(("mux", "demux", "kind"), VARIANTS, ids=["-".join(v) for v in VARIANTS])
CLASSES = {
    "sentence": datamux.MuxForSequenceClassification,
    "token": datamux.MuxForTokenClassification,
    "retrieval": datamux.MuxForRetrieval,
}


def masks(ids):
    return {"input_ids": ids, "attention_mask": (ids != reference.PAD).long()}


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def same_models(one, other, rows):
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
    # Copied, because weights that are mapped from a file need not be aligned, and alignment changes the last bit.
    assert torch.equal(copy.deepcopy(one)(**rows).logits, copy.deepcopy(other)(**rows).logits)


@variants
@torch.no_grad()
def test_logits_are_those_of_the_published_forward(mux, demux, kind, tmp_path):
    folder, weights = random_checkpoint(tmp_path, mux, demux, kind)
    model = datamux.load_published(folder)
    assert isinstance(model, CLASSES[kind])
    assert model.config.num_instances == N
    assert not model.training
    ids = padded_rows(2 * N)
    expected = reference.published_logits(weights, ids, mux, demux, kind)
    assert expected.std(0).max() > 0.1, "rows must matter, or the comparison shows nothing"
    for given in ({"input_ids": ids}, masks(ids)):  # there is padding, with and without a mask
        close(model(**given).logits, expected)
    with torch.enable_grad():  # mixed as in training
        close(model(**masks(ids)).logits.detach(), expected)


@pytest.mark.parametrize("mux", MUXES)
@pytest.mark.parametrize("demux", ["index", "mlp"])
@torch.no_grad()
def test_each_step(mux, demux, tmp_path):
    folder, weights = random_checkpoint(tmp_path, mux, demux)
    model = datamux.load_published(folder)
    ids = padded_rows(N)
    groups, mask = ids.unsqueeze(0), (ids != reference.PAD).unsqueeze(0)
    if demux == "index":
        with_prefix = reference.add_prefix(ids, N)
    else:
        with_prefix = torch.cat([torch.full((N, 1), 49_923), ids[:, 1:]], 1)
    vectors = reference.embed(weights, with_prefix)
    close(model.backbone.embed(groups, mask)[0], vectors)
    mixture = reference.mix(weights, vectors, mux)
    close(model.mux.mix_groups(groups, mask)[0][0], mixture)
    states = reference.run_encoder(weights, mixture)
    close(model.mux.backbone.encode_mixture(*model.mux.mix_groups(groups, mask), groups.shape[1])[0], states)
    for reads, positions in (("first", [N if demux == "index" else 0]), ("all", range(len(states) - 5, len(states)))):
        z = model.mux.demultiplexer(states.unsqueeze(0), N, reads)[0]
        for i in range(N):
            close(z[i], reference.take_out(weights, "demultiplexer", states, i, demux, torch.tensor(positions)))


@pytest.mark.parametrize("demux", ["index", "mlp"])
@torch.no_grad()
def test_padding_is_attended_to(demux, tmp_path):
    """The published code does; so a longer row gives another answer, and the same one here as there."""
    folder, weights = random_checkpoint(tmp_path, demux=demux)
    model = datamux.load_published(folder)
    ids = padded_rows(N)
    longer = torch.nn.functional.pad(ids, (0, 4), value=reference.PAD)
    found = model(**masks(longer)).logits
    close(found, reference.published_logits(weights, longer, "gaussian_hadamard", demux, "sentence"))
    assert (found - model(**masks(ids)).logits).abs().max() > 1e-2
    other_padding = {**masks(longer), "input_ids": torch.where(longer == reference.PAD, 7, longer)}
    close(model(**other_padding).logits, found)  # with a mask, what stands at padding does not matter


@pytest.mark.parametrize("demux", ["index", "mlp"])
@torch.no_grad()
def test_an_incomplete_group_is_answered(demux, tmp_path):
    """The original drops these rows. They are repeated in the slots that are left, and their answers averaged."""
    folder, weights = random_checkpoint(tmp_path, demux=demux)
    model = datamux.load_published(folder)
    ids = padded_rows(2 * N + 1)
    logits = model(**masks(ids)).logits
    assert logits.shape == (2 * N + 1, reference.LABELS)
    close(logits[: 2 * N], reference.published_logits(weights, ids, "gaussian_hadamard", demux, "sentence"))
    filled = reference.published_logits(weights, ids[-1:].repeat(N, 1), "gaussian_hadamard", demux, "sentence")
    close(logits[-1], filled.mean(0))
    small = model(**masks(ids), group_size=2, filler="nothing").logits
    assert small.shape == logits.shape
    assert small.isfinite().all()
    empty_slot = model(**masks(ids[:2]), group_size=3, filler="nothing").logits
    close(empty_slot, small[:2])  # an empty slot adds nothing, and the prefix is as long as ever


@torch.no_grad()
def test_no_rows(tmp_path):
    model = datamux.load_published(random_checkpoint(tmp_path)[0])
    assert model(padded_rows(N)[:0]).logits.shape == (0, reference.LABELS)


@torch.no_grad()
def test_groups_do_not_touch_each_other(tmp_path):
    model = datamux.load_published(random_checkpoint(tmp_path)[0])
    ids = padded_rows(2 * N)
    before = model(**masks(ids)).logits
    ids[:N] = padded_rows(N, seed=9)
    after = model(**masks(ids)).logits
    close(after[N:], before[N:])
    assert (after[:N] - before[:N]).abs().max() > 1e-3


@variants
@torch.no_grad()
def test_it_saves_and_loads_in_our_format(mux, demux, kind, tmp_path):
    model = datamux.load_published(random_checkpoint(tmp_path / "published", mux, demux, kind)[0], padded_length=20)
    model.save_pretrained(tmp_path / "ours")
    loaded = load_model(tmp_path / "ours")
    assert type(loaded) is type(model)
    assert loaded.config.padded_length == 20
    assert loaded.filler == "repeat"
    ids = padded_rows(N + 1)
    same_models(loaded, model, masks(ids))
    if kind == "sentence":
        auto = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours")
        close(auto(**masks(ids)).logits, model(**masks(ids)).logits)


@torch.no_grad()
def test_safetensors(tmp_path):
    one = datamux.load_published(random_checkpoint(tmp_path / "safe", safe=True)[0])
    other = datamux.load_published(random_checkpoint(tmp_path / "bin")[0])
    same_models(one, other, masks(padded_rows(N)))


def test_the_weights_are_read_once(tmp_path, monkeypatch, tokenizer):
    """They are hundreds of megabytes. What a checkpoint is follows from their names, which are read without them."""
    reads = []
    monkeypatch.setattr(checkpoint, "load_file", lambda file: reads.append(file) or load_file(file))
    folder, weights = random_checkpoint(tmp_path / "safe", safe=True)
    tokenizer.save_pretrained(folder)
    load_config(folder)
    assert reads == []
    datamux.load(folder)
    assert len(reads) == 1
    mapped, load = [], torch.load
    monkeypatch.setattr(torch, "load", lambda file, **how: mapped.append(how["mmap"]) or load(file, **how))
    load_config(write_checkpoint(tmp_path / "bin", config_fields(), weights))
    assert mapped == [True]
    torch.save(weights, tmp_path / "bin" / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    rows = masks(padded_rows(N))
    same_models(datamux.load_published(tmp_path / "bin"), datamux.load_published(folder), rows)
    assert mapped == [True, False, False], "files of old torch cannot be mapped"


@torch.no_grad()
def test_one_checkpoint_holds_a_task_and_retrieval(tmp_path):
    folder, weights = random_checkpoint(tmp_path)
    ids = padded_rows(N)
    words = datamux.load_published(folder, task="retrieval")(**masks(ids)).logits
    close(words, reference.published_logits(weights, ids, "gaussian_hadamard", "index", "retrieval"))
    with pytest.raises(ValueError, match="unknown task 'ner'"):
        datamux.load_published(folder, task="ner")


@pytest.mark.parametrize(
    ("said", "tags"),
    [
        ({"finetuning_task": "ner"}, True),
        ({"finetuning_task": "sst2", "architectures": ["RobertaTokenClassificationMuxed"]}, False),
        ({"finetuning_task": None, "id2label": {"0": "O", "1": "B-X", "2": "I-X", "3": "B-Y"}}, True),
        ({"finetuning_task": None, "id2label": {"0": "a", "1": "b", "2": "c", "3": "d"}}, False),
        ({"finetuning_task": None, "architectures": ["RobertaTokenClassificationMuxed"]}, True),
        ({"finetuning_task": None}, False),
    ],
)
def test_mlp_taggers_are_told_by_their_configuration(said, tags, tmp_path, caplog):
    """Their weights have the same names as those of a sentence model. Only the class is a guess, with a warning."""
    folder, _ = random_checkpoint(tmp_path, demux="mlp", **said)
    assert load_config(folder).architectures[0].endswith("ForTokenClassification") == tags
    guessed = said["finetuning_task"] is None and "id2label" not in said
    assert ("it is taken to be for" in caplog.text) == guessed
    assert (f"for {'tokens' if tags else 'sentences'}." in caplog.text) == guessed


def test_labels_have_the_names_of_the_task(tmp_path):
    weights = random_weights()
    weights["demultiplexer.out_proj.weight"], weights["demultiplexer.out_proj.bias"] = torch.ones(2, 8), torch.ones(2)
    two = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
    folder = write_checkpoint(tmp_path / "a", config_fields(finetuning_task="sst2", **two), weights)
    assert datamux.load_published(folder).config.id2label == {0: "negative", 1: "positive"}
    folder = write_checkpoint(tmp_path / "datamux-qqp-3", config_fields(finetuning_task=None, **two), weights)
    assert load_config(folder).id2label == {0: "different", 1: "duplicate"}
    assert load_config(random_checkpoint(tmp_path / "b")[0]).id2label[3] == "LABEL_3"  # mnli has three labels, not four
    assert len(LABELS["ner"]) == 9


def test_learned_keys_are_parameters(tmp_path):
    for learned in (0, 1):
        folder, _ = random_checkpoint(tmp_path / str(learned), learn_muxing=learned)
        model = datamux.load_published(folder)
        assert ("mux.multiplexer.keys" in dict(model.named_parameters())) == bool(learned)


def test_padded_length_leaves_room_for_the_prefix(tmp_path):
    folder, _ = random_checkpoint(tmp_path)
    assert load_config(folder).padded_length == 60 - 2 - (N + 1)
    assert datamux.load_published(folder, padded_length=None).config.padded_length is None
    with pytest.raises(ValueError, match="padded_length must be a whole number of at least 1"):
        datamux.load_published(folder, padded_length=0)


def broken(tmp_path, change=None, *, drop=(), add=None, **fields):
    weights = random_weights()
    for name in drop:
        del weights[name]
    weights |= add or {}
    return write_checkpoint(tmp_path, config_fields(**fields) | (change or {}), weights)


def test_errors_name_what_was_expected_and_found(tmp_path):
    def fails(match, folder, kind=ValueError):
        with pytest.raises(kind, match=match):
            datamux.load_published(folder)

    fails(
        "unknown muxing_variant of a roberta .* 'rotation'; allowed: binary_h",
        broken(tmp_path / "a", {"muxing_variant": "rotation"}),
    )
    fails(
        "unknown demuxing_variant of a roberta .* 'gate'; allowed: index, mlp",
        broken(tmp_path / "b", {"demuxing_variant": "gate"}),
    )
    fails("lacks weights .*: instance_embedding; found", broken(tmp_path / "c", drop=["instance_embedding"]))
    fails("has weights that no .*: cls.bias", broken(tmp_path / "d", add={"cls.bias": torch.ones(2)}))
    fails(r"do not fit .*multiplexer.keys should be \(5, 8\) and is \(3, 8\)", broken(tmp_path / "e", n=5))
    fails("multiplexes 'electra'; .*published.md", broken(tmp_path / "f", {"model_type": "electra"}))
    fails("uses the word ids up to 50000, but .* 50000", broken(tmp_path / "g", {"vocab_size": 50_000}))
    no_head = ["demultiplexer.out_proj.weight", "retrieval_head.decoder.weight", "retrieval_head.decoder.bias"]
    fails("out_proj, demultiplexer.decoder, classifier and retrieval_h", broken(tmp_path / "h", drop=no_head))
    fails("not a published .* this roberta configuration has no muxing", no_mux(tmp_path / "i"))
    empty = write_checkpoint(tmp_path / "j", config_fields(), {})
    (empty / "pytorch_model.bin").unlink()
    fails("has no weights: expected model.safetensors or pytorch_model.bin", empty, FileNotFoundError)
    fails("no such folder", tmp_path / "nowhere", FileNotFoundError)


def no_mux(folder):
    fields = {name: value for name, value in config_fields().items() if name != "muxing_variant"}
    return write_checkpoint(folder, fields, {})


class Harmful:
    def __reduce__(self):
        return (print, ("this must never run",))


@pytest.mark.parametrize("content", [{"a": Harmful()}, ["a list"], None], ids=["code", "list", "broken"])
def test_nothing_but_tensors_is_read(content, tmp_path, capsys):
    folder = write_checkpoint(tmp_path, config_fields(), content)
    if content is None:
        (folder / "pytorch_model.bin").write_bytes(b"not a file of weights")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin (cannot be read|should hold named tensors)"):
        datamux.load_published(folder)
    assert "never" not in capsys.readouterr().out


def test_too_many_tokens_and_vectors(tmp_path):
    model = datamux.load_published(random_checkpoint(tmp_path)[0])
    with pytest.raises(ValueError, match=r"59 positions \(prefix included\) are more than the 58"):
        model(padded_rows(N, tokens=55))
    with pytest.raises(ValueError, match="give input_ids, not inputs_embeds"):
        model(inputs_embeds=torch.randn(N, 5, 8))


def test_a_missing_tokenizer_says_what_to_do(tmp_path):
    folder, _ = random_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"has no tokenizer, .*roberta-base.*save_pretrained"):
        load_tokenizer(folder)


# MUX-PLM


def mux_plm(folder, mux="gaussian_hadamard", kind="sentence", layers=3, drop=(), safe=False, **more):
    weights = reference.mux_plm_weights(mux, kind, layers)
    kept = {name: value for name, value in weights.items() if not name.startswith(drop or ("none",))}
    return write_checkpoint(folder, reference.mux_plm_fields(mux, kind, layers, **more), kept, safe), weights


def bert_rows(rows, tokens=5):
    return padded_rows(rows, tokens) % 150 + 3


@pytest.mark.parametrize("mux", [*MUXES, reference.CONTEXTUAL])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_mux_plm_logits(mux, kind, tmp_path):
    folder, weights = mux_plm(tmp_path / "published", mux, kind)
    model = datamux.load_published(folder)
    assert isinstance(model, CLASSES[kind])
    ids = bert_rows(2 * N)
    expected = reference.mux_plm_logits(weights, ids, mux, kind)
    assert expected.std(0).max() > 0.1
    mask = torch.arange(5) < torch.tensor([5, 3, 2, 4, 5, 1])[:, None]
    padded = torch.where(mask, ids, 0)
    close(model(ids).logits, expected)
    close(model(padded, mask).logits, reference.mux_plm_logits(weights, padded, mux, kind, mask=mask))
    model.save_pretrained(tmp_path / "ours")
    same_models(load_model(tmp_path / "ours"), model, {"input_ids": ids})


@pytest.mark.parametrize("layers", [2, 4])
@torch.no_grad()
def test_mux_plm_has_any_number_of_layers(layers, tmp_path):
    folder, weights = mux_plm(tmp_path, layers=layers)
    ids = bert_rows(N)
    expected = reference.mux_plm_logits(weights, ids, "gaussian_hadamard", "sentence", layers)
    close(datamux.load_published(folder)(ids).logits, expected)
    words = datamux.load_published(folder, task="retrieval")(ids).logits
    close(words, reference.mux_plm_logits(weights, ids, "gaussian_hadamard", "retrieval"))


@torch.no_grad()
def test_mux_plm_weights_that_are_saved_once(tmp_path):
    """A module with several names, and a decoder that is the table of words, need not be in a file twice."""
    once = ("demux_module.", "retrieval_head.demux_module.", "retrieval_head.decoder.weight")
    folder, weights = mux_plm(tmp_path, kind="retrieval", drop=once, safe=True)
    ids = bert_rows(N)
    found = datamux.load_published(folder)(ids).logits
    close(found, reference.mux_plm_logits(weights, ids, "gaussian_hadamard", "retrieval"))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_contextual_multiplexer_and_empty_slots(kind, tmp_path):
    """An empty slot is not looked at and adds nothing, so that a smaller group is a group with empty slots."""
    folder, _ = mux_plm(tmp_path, reference.CONTEXTUAL, kind)
    model, ids = datamux.load_published(folder), bert_rows(2)
    mask = torch.arange(5) < torch.tensor([5, 3])[:, None]
    small = model(ids, mask, group_size=2, filler="nothing").logits
    close(model(ids, mask, group_size=3, filler="nothing").logits, small)
    other = torch.cat([ids[:1], bert_rows(9)[-1:]])
    assert (model(other, mask, group_size=2, filler="nothing").logits[0] - small[0]).abs().max() > 1e-3
    keys = "mux.multiplexer.keys"
    learned, _ = mux_plm(tmp_path / "learned", reference.CONTEXTUAL, kind, learn_muxing=1)
    assert keys in dict(datamux.load_published(learned).named_parameters())
    assert keys not in dict(model.named_parameters())


def test_mux_plm_errors_and_names(tmp_path):
    folder, _ = mux_plm(tmp_path / "a", muxing_variant="gaussian_attention_v2")
    with pytest.raises(ValueError, match=r"lacks weights .* muxing_attention.attention.output.LayerNorm.bias"):
        datamux.load_published(folder)
    with pytest.raises(ValueError, match="unknown muxing_variant of a roberta checkpoint: 'gaussian_attention_v2'"):
        datamux.load_published(random_checkpoint(tmp_path / "d", muxing_variant="gaussian_attention_v2")[0])
    folder, _ = mux_plm(tmp_path / "b", demuxing_variant="index")
    with pytest.raises(ValueError, match="demuxing_variant of a bert checkpoint: 'index'; allowed: index_pos"):
        datamux.load_published(folder)
    folder, _ = mux_plm(tmp_path / "c")
    with pytest.raises(FileNotFoundError, match="has no tokenizer, and that of bert-base-uncased"):
        load_tokenizer(folder)
    two = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
    folder, _ = mux_plm(tmp_path / "muxbert_base_sst2_gaussian_hadamard_index_pos_3", finetuning_task=None, **two)
    assert load_config(folder).id2label == {0: "negative", 1: "positive"}
    assert load_config(folder).padded_length == 60
