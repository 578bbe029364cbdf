"""A classifier that stays as it is: bit for bit its own answers at group size 1, and only the new parts are saved."""

import copy
import json

import pytest
import torch
import transformers as tf

from conftest import random_rows, tiny_config
from datamux import multiplex
from datamux.hub.loading import load_model
from datamux.inference.loading import load_runtime

N = 3
FAMILIES = ("bert", "roberta", "xlm-roberta", "distilbert", "electra")
AUTO = {
    "sequence-classification": tf.AutoModelForSequenceClassification,
    "token-classification": tf.AutoModelForTokenClassification,
}
REVERSIBLE = {"multiplexer": "reversible", "demultiplexer": "reversible", "mux_layer": 1}


def classifier(tmp_path, family="bert", task="sequence-classification"):
    """The folder of a classifier with random weights, and the classifier as its user would load it."""
    torch.manual_seed(1)
    config = tiny_config(family)
    config.num_labels = 4
    model = AUTO[task].from_config(config)
    for weight in model.parameters():  # no weight is zero, so that none can be left out unnoticed
        torch.nn.init.normal_(weight, std=0.3)
    folder = tmp_path / "plain"
    model.save_pretrained(folder)
    return folder, AUTO[task].from_pretrained(folder).eval()


def trained(model):
    """The same model after something was learned: every weight that can learn has moved."""
    for weight in model.parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight, std=0.2)
    return model


@pytest.mark.parametrize("task", AUTO)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_group_size_one_is_the_users_own_model_bit_for_bit(family, task, tmp_path):
    folder, plain = classifier(tmp_path, family, task)
    model = trained(multiplex(str(folder), N, task=task, frozen=True, low_rank=2, **REVERSIBLE))
    rows = random_rows(5)
    padded_left = {name: x.flip(1) for name, x in rows.items()}
    for given in (rows, padded_left, {"input_ids": rows["input_ids"]}):
        assert torch.equal(model(**given, group_size=1).logits, plain(**given).logits)
    if family == "bert":
        pairs = rows | {"token_type_ids": rows["attention_mask"] * (torch.arange(7) > 2)}
        assert torch.equal(model(**pairs, group_size=1).logits, plain(**pairs).logits)
    mixed = model(**rows, group_size=N).logits
    assert mixed.shape == plain(**rows).logits.shape
    assert not torch.allclose(mixed, plain(**rows).logits)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_the_users_own_head_answers_for_what_is_taken_out(family, tmp_path):
    """If demultiplexing gave back the classifier's own last states, the answer would be the classifier's."""
    for task in AUTO:
        folder, plain = classifier(tmp_path / task, family, task)
        model = multiplex(str(folder), N, task=task, frozen=True, multiplexer="sign")
        ids = random_rows(5)["input_ids"]
        states = plain.base_model(input_ids=ids).last_hidden_state.unsqueeze(0)  # one group of five
        read = states[:, :, :1] if task == "sequence-classification" else states
        torch.testing.assert_close(model.mux.head(read)[0], plain(input_ids=ids).logits, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("parts", [REVERSIBLE | {"low_rank": 2}, {"multiplexer": "sign", "demultiplexer": "key"}])
def test_only_the_new_parts_are_saved(parts, tmp_path):
    folder, plain = classifier(tmp_path)
    model = trained(multiplex(str(folder), N, frozen=True, **parts))
    model.save_pretrained(tmp_path / "mixed")
    from safetensors.torch import load_file

    saved = load_file(tmp_path / "mixed" / "model.safetensors")
    assert {name.split(".")[1] for name in saved} <= {"multiplexer", "demultiplexer", "backbone"}
    assert all(".updates." in name for name in saved if "backbone" in name)
    own = sum(weight.numel() for weight in saved.values())
    assert own == sum(w.numel() for w in model.state_dict().values()) - _numbers(model, saved)
    loaded = load_model(tmp_path / "mixed")
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, loaded.state_dict()[name]), name
    rows = random_rows(7)
    with torch.no_grad():
        for k in (1, 2, N):
            one, other = copy.deepcopy(model), copy.deepcopy(loaded)
            torch.testing.assert_close(other(**rows, group_size=k).logits, one(**rows, group_size=k).logits)
        assert torch.equal(loaded(**rows, group_size=1).logits, plain(**rows).logits)
    runtime, _, _ = load_runtime(str(tmp_path / "mixed"))
    assert runtime.num_instances == N


def _numbers(model, saved):
    return sum(weight.numel() for name, weight in model.state_dict().items() if name not in saved)


def test_training_moves_the_new_parts_and_nothing_else(tmp_path):
    folder, _ = classifier(tmp_path)
    model = multiplex(str(folder), N, frozen=True, low_rank=2, **REVERSIBLE).train()
    assert not any(module.training for module in model.frozen_classifier.modules()), (
        "a frozen encoder does not drop out"
    )
    rows = random_rows(2 * N)
    assert torch.equal(model(**rows).logits, model(**rows).logits)
    model(**rows, labels=torch.arange(2 * N) % 4).loss.backward()
    learning = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert {name.split(".")[1] for name in learning} == {"multiplexer", "demultiplexer", "backbone"}
    assert all(weight.grad is not None for name, weight in model.named_parameters() if name in learning)
    assert all(weight.grad is None for weight in model.frozen_classifier.parameters())


def test_one_of_our_plain_models_can_be_the_classifier(tmp_path):
    torch.manual_seed(0)
    folder, _ = classifier(tmp_path)
    plain = multiplex(str(folder), 1, multiplexer="identity", demultiplexer="identity", num_labels=4)
    plain.save_pretrained(tmp_path / "ours")
    model = trained(multiplex(str(tmp_path / "ours"), N, frozen=True, **REVERSIBLE))
    model.save_pretrained(tmp_path / "mixed")
    loaded, rows = load_model(tmp_path / "mixed"), random_rows(5)
    with torch.no_grad():
        expected = load_model(tmp_path / "ours")(**rows).logits
        for one in (model, loaded):
            assert torch.equal(one(**rows, group_size=1).logits, expected)
        assert model.config.pooling == "mean"


def test_what_cannot_be_frozen(tmp_path):
    folder, plain = classifier(tmp_path)
    with pytest.raises(ValueError, match="has no retrieval task"):
        multiplex(str(folder), N, frozen=True, task="retrieval")
    with pytest.raises(ValueError, match="save the classifier first"):
        multiplex(tf.AutoModelForSequenceClassification.from_config(tiny_config()), N, frozen=True)
    mixed = multiplex(plain, N, frozen=True)
    mixed.save_pretrained(tmp_path / "mixed")
    with pytest.raises(ValueError, match="is multiplexed already"):
        multiplex(str(tmp_path / "mixed"), N, frozen=True)
    config = tiny_config("modernbert")
    config.save_pretrained(tmp_path / "other")
    tf.AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / "other")
    with pytest.raises(ValueError, match="the head of a 'modernbert' classifier cannot be used by itself"):
        multiplex(str(tmp_path / "other"), N, frozen=True)
    folder.rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match="needs the classifier that it was trained around"):
        load_model(tmp_path / "mixed")


def test_a_changed_classifier_is_noticed(tmp_path):
    """The new parts fit only the weights that they were trained around; a model without a hash is not checked."""
    folder, plain = classifier(tmp_path)
    model = trained(multiplex(str(folder), N, frozen=True, **REVERSIBLE))
    model.save_pretrained(tmp_path / "mixed")
    plain.half().save_pretrained(folder)  # weights that only lost precision are others, too
    with pytest.raises(ValueError, match="has other weights now than when this model was trained around it"):
        load_model(tmp_path / "mixed")
    config = json.loads((tmp_path / "mixed" / "config.json").read_text())
    assert len(config.pop("base_hash")) == 64
    (tmp_path / "mixed" / "config.json").write_text(json.dumps(config))
    load_model(tmp_path / "mixed").save_pretrained(tmp_path / "again")
    load_model(tmp_path / "again")
    plain.save_pretrained(folder, safe_serialization=True)
    load_model(tmp_path / "again")  # saving the same weights again changes nothing


@pytest.mark.parametrize("task", AUTO)
@torch.no_grad()
def test_a_text_that_is_left_over_is_answered_by_the_classifier(task, tmp_path):
    """It has no neighbour, whether its group is incomplete or filled up with empty rows, as the server does."""
    folder, plain = classifier(tmp_path, "bert", task)
    plain = copy.deepcopy(plain)  # weights that are mapped from a file need not be aligned, which changes the last bit
    model = trained(multiplex(str(folder), N, task=task, frozen=True, low_rank=2, **REVERSIBLE))
    rows = random_rows(2 * N + 1)
    last = {name: x[-1:] for name, x in rows.items()}
    found = model(**rows, labels=rows["input_ids"] * 0 if task.startswith("token") else rows["input_ids"][:, 0] * 0)
    assert torch.equal(found.logits[-1:], plain(**last).logits)
    assert found.loss.isfinite()
    full = {name: x[: 2 * N] for name, x in rows.items()}
    assert torch.equal(found.logits[:-1], model(**full).logits)
    two = model(**{name: x[:-2] for name, x in rows.items()}).logits[-2:]
    assert not torch.allclose(two, plain(**{name: x[-4:-2] for name, x in rows.items()}).logits), "these two are mixed"
    empty = {name: x.clone() for name, x in rows.items()}
    for name in ("input_ids", "attention_mask"):
        empty[name][1:N] = 0  # the first group has only its first row
    found = model(**empty).logits
    both = {name: x[[0, -1]] for name, x in rows.items()}
    assert torch.equal(found[[0, -1]], plain(**both).logits)
    assert torch.equal(found[N : 2 * N], model(**{name: x[N : 2 * N] for name, x in rows.items()}).logits)
    assert torch.equal(found[1:N], torch.zeros_like(found[1:N]))
    assert torch.equal(model(**last).logits, plain(**last).logits)
    words = {"inputs_embeds": model.get_input_embeddings()(rows["input_ids"])}
    assert torch.equal(model(**words).logits[-1:], plain(inputs_embeds=words["inputs_embeds"][-1:]).logits)
    repeated = model(**rows, filler="repeat").logits
    assert not torch.allclose(repeated[-1:], plain(**last).logits)


def test_no_group_size_means_the_models_own_and_zero_is_an_error(tmp_path):
    folder, _ = classifier(tmp_path)
    model = multiplex(str(folder), N, frozen=True, **REVERSIBLE)
    model.group_size = 1
    with pytest.raises(ValueError, match="group_size"):
        model(random_rows(3)["input_ids"], group_size=0)
