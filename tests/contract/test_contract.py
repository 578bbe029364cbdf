"""What every multiplexer with every demultiplexer must do. A new strategy is tested the moment it is registered."""

import copy
import itertools

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from conftest import random_rows, tiny_encoder
from datamux import DEMULTIPLEXERS, MULTIPLEXERS, build_demultiplexer, build_multiplexer, multiplex

N = 3
PAIRS = list(itertools.product(MULTIPLEXERS, DEMULTIPLEXERS))
pairs = pytest.mark.parametrize(("mux", "demux"), PAIRS, ids=["+".join(pair) for pair in PAIRS])


def build(mux, demux, seed=0, task="sequence-classification", num_instances=N):
    torch.manual_seed(seed)
    options = {"multiplexer": mux, "demultiplexer": demux, "num_labels": 4, "seed": seed}
    return multiplex(tiny_encoder(), num_instances, task=task, **options)


@pairs
def test_save_and_load_is_bit_exact(mux, demux, tmp_path):
    model = build(mux, demux, seed=7)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert model.state_dict().keys() == loaded.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name
    rows = random_rows(5)
    # Copied, because weights that are mapped from a file need not be aligned, and alignment changes the last bit.
    assert torch.equal(copy.deepcopy(model)(**rows).logits, copy.deepcopy(loaded)(**rows).logits)


@pairs
@torch.no_grad()
def test_groups_do_not_touch_each_other(mux, demux):
    model = build(mux, demux)
    rows = random_rows(3 * N)
    before = model(**rows).logits
    rows["input_ids"][:N] = random_rows(N, seed=9)["input_ids"]
    rows["input_ids"][2 * N :] = random_rows(N, seed=8)["input_ids"]
    after = model(**rows).logits
    torch.testing.assert_close(after[N : 2 * N], before[N : 2 * N], atol=1e-6, rtol=1e-5)
    assert (after[:N] - before[:N]).abs().max() > 1e-5, "the changed groups must change"


@pairs
@torch.no_grad()
def test_more_padding_changes_nothing(mux, demux):
    model = build(mux, demux)
    rows = random_rows(5)
    padded = {name: torch.nn.functional.pad(x, (0, 4)) for name, x in rows.items()}
    torch.testing.assert_close(model(**padded).logits, model(**rows).logits, atol=1e-5, rtol=1e-4)


@pairs
@torch.no_grad()
def test_what_stands_at_padding_changes_nothing(mux, demux):
    model = build(mux, demux)
    rows = random_rows(5)
    noise = rows | {"input_ids": torch.where(rows["attention_mask"] == 1, rows["input_ids"], 33)}
    torch.testing.assert_close(model(**noise).logits, model(**rows).logits, atol=1e-6, rtol=1e-5)


@pairs
@torch.no_grad()
def test_order_is_kept_for_any_number_of_rows(mux, demux):
    """Each whole group answers the same whatever follows it, and every row gets one answer."""
    model = build(mux, demux)
    rows = random_rows(2 * N + 1)
    whole = model(**rows).logits
    assert whole.shape == (2 * N + 1, 4)
    for count in (0, 1, N, N + 1):
        some = model(**{name: x[:count] for name, x in rows.items()}).logits
        assert some.shape == (count, 4)
        full = count // N * N
        torch.testing.assert_close(some[:full], whole[:full], atol=1e-5, rtol=1e-4)
    for group in (0, 1):
        alone = model(**{name: x[group * N : (group + 1) * N] for name, x in rows.items()}).logits
        torch.testing.assert_close(alone, whole[group * N : (group + 1) * N], atol=1e-5, rtol=1e-4)


@pairs
@torch.no_grad()
def test_an_empty_slot_is_like_a_smaller_group(mux, demux):
    model = build(mux, demux)
    rows = random_rows(2)
    expected = model(**rows, group_size=2).logits
    got = model(**rows, group_size=3).logits
    if demux == "index":  # one more prefix position: another input
        assert got.shape == expected.shape
    else:
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


@pairs
@torch.no_grad()
def test_every_group_size_and_filler(mux, demux):
    model = build(mux, demux)
    rows = random_rows(5)
    for k, filler in itertools.product(range(1, N + 1), ("nothing", "repeat")):
        logits = model(**rows, group_size=k, filler=filler).logits
        assert logits.shape == (5, 4)
        assert logits.isfinite().all()
    for k in (0, N + 1):
        with pytest.raises(ValueError, match="group_size"):
            model(**rows, group_size=k)


@pairs
@torch.no_grad()
def test_repeats_average_the_slots(mux, demux):
    model = build(mux, demux)
    rows = random_rows(1)
    filled = {name: x.repeat(N, 1) for name, x in rows.items()}
    expected = model(**filled).logits.mean(0, keepdim=True)
    torch.testing.assert_close(model(**rows, group_size=1, filler="repeat").logits, expected, atol=1e-5, rtol=1e-4)


@pairs
@torch.no_grad()
def test_one_slot_works(mux, demux):
    assert build(mux, demux, num_instances=1)(**random_rows(3)).logits.shape == (3, 4)


@pairs
@torch.no_grad()
def test_token_labels_and_words_have_a_row_an_instance(mux, demux):
    rows = random_rows(N + 1)
    assert build(mux, demux, task="token-classification")(**rows).logits.shape == (N + 1, 7, 4)
    assert build(mux, demux, task="retrieval")(**rows).logits.shape == (N + 1, 7, 61)


@pairs
def test_gradients_reach_every_parameter(mux, demux):
    model = build(mux, demux).train()
    model(**random_rows(2 * N), labels=torch.arange(2 * N) % 4).loss.backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert without == []


@pytest.mark.parametrize("name", MULTIPLEXERS)
def test_multiplexer_seed_and_dtype(name):
    def keys(seed):
        return list(build_multiplexer(name, N, 24, seed=seed).initial_state().values())

    for a, b, other in zip(keys(1), keys(1), keys(2), strict=True):
        assert torch.equal(a, b)
        assert name == "binary" or not torch.equal(a, other)
    x = torch.randn(2, N, 5, 24, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert build_multiplexer(name, N, 24)(x).isfinite().all()
    double = build_multiplexer(name, N, 24).double()
    assert double(x.double()).dtype == torch.float64


@pytest.mark.parametrize("name", DEMULTIPLEXERS)
def test_demultiplexer_seed_and_dtype(name):
    def keys(seed):
        return build_demultiplexer(name, N, 24, seed=seed).initial_state()

    for key, value in keys(1).items():
        assert torch.equal(value, keys(1)[key])
        assert key.startswith("bias") or not torch.equal(value, keys(2)[key])
    demux = build_demultiplexer(name, N, 24).double()
    assert demux(torch.randn(2, 8, 24, dtype=torch.float64), N).dtype == torch.float64
