"""What every multiplexer and every demultiplexer must do. A new strategy is tested the moment it is registered."""

import copy
import itertools

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from conftest import random_rows, tiny_encoder
from datamux import (
    DEMULTIPLEXERS,
    MULTIPLEXERS,
    Multiplexed,
    Multiplexer,
    build_demultiplexer,
    build_multiplexer,
    multiplex,
)
from datamux.backbones.transformer import TransformerBackbone
from datamux.demultiplexers.gate import GateDemultiplexer
from datamux.multiplexers.hadamard import Hadamard

N = 3
# Each multiplexer with one demultiplexer, and each demultiplexer with one multiplexer: the two meet only in the heart.
PAIRS = [(mux, "gate") for mux in MULTIPLEXERS]
PAIRS += [("gaussian_hadamard", demux) for demux in DEMULTIPLEXERS if demux != "gate"]
PAIRS += [("reversible", "reversible")]  # these two share their coupling
pairs = pytest.mark.parametrize(("mux", "demux"), PAIRS, ids=["+".join(pair) for pair in PAIRS])


def build(mux, demux, seed=0, task="sequence-classification", num_instances=N):
    torch.manual_seed(seed)
    options = {"multiplexer": mux, "demultiplexer": demux, "num_labels": 4, "seed": seed}
    return multiplex(tiny_encoder(), num_instances, task=task, **options)


def answers_of_both_paths(model, rows, monkeypatch):
    """Logits with gradients, where all vectors are mixed at once, and at inference on a CPU, one group at a time."""
    monkeypatch.setattr("datamux.cpu_mixing.CACHED", 1)
    with torch.enable_grad():
        training = model(**rows).logits.detach()
    with torch.no_grad():
        return training, model(**rows).logits


@pairs
@pytest.mark.parametrize("given", ["padded", "unpadded", "segments"])
def test_training_and_inference_mix_alike(mux, demux, given, monkeypatch):
    model = build(mux, demux)
    torch.nn.init.normal_(model.mux.head.out.weight)
    torch.nn.init.normal_(model.backbone.words.weight)  # the padding word, too: only the mask keeps it out
    rows = random_rows(2 * N + 1)  # the last group is incomplete
    if given == "unpadded":
        rows = {"input_ids": random_rows(2 * N)["input_ids"]}  # no mask at all
    if given == "segments":
        rows["token_type_ids"] = rows["attention_mask"] * (torch.arange(7) > 2)
    training, inference = answers_of_both_paths(model, rows, monkeypatch)
    torch.testing.assert_close(inference, training, atol=1e-5, rtol=1e-4)


class Reversed(Hadamard):
    """Inherits `weights`, and mixes the reversed input with them."""

    def mix(self, x, mask):
        return super().mix(x.flip(-1), mask)


class Scaled(Hadamard):
    """Inherits `weights` and `mix`, and changes what comes out."""

    def forward(self, x, mask=None):
        return 3 * super().forward(x, mask)


class Rolled(Multiplexer):
    """Writes `mix` and has no weights."""

    def mix(self, x, mask):
        return sum(x[:, slot].roll(slot, -1) for slot in range(x.shape[1]))


@pytest.mark.parametrize("demux", ["gate", "index"])
@pytest.mark.parametrize("kind", [Reversed, Scaled, Rolled])
def test_inference_uses_a_multiplexer_of_ones_own(kind, demux, monkeypatch):
    monkeypatch.setitem(MULTIPLEXERS, "own", kind)
    model = build("own", demux)
    torch.nn.init.normal_(model.mux.head.out.weight)
    rows = random_rows(2 * N + 1)
    training, inference = answers_of_both_paths(model, rows, monkeypatch)
    torch.testing.assert_close(inference, training, atol=1e-5, rtol=1e-4)
    ids, mask = (rows[name][:N].unsqueeze(0) for name in ("input_ids", "attention_mask"))
    with torch.no_grad():
        found, _ = model.mux.mix_groups(ids, mask.bool())
        vectors, mask = model.mux.demultiplexer.add_prefix(model.backbone.words(ids), mask.bool())
        torch.testing.assert_close(found, model.mux.multiplexer(vectors, mask))
        other, _ = build("gaussian_hadamard", demux).mux.mix_groups(ids, rows["attention_mask"][:N].bool().unsqueeze(0))
    assert (found - other).abs().max() > 1e-3, "this multiplexer must be told from its parent"


class Doubled(TransformerBackbone):
    """Changes what embedding gives, but not the table of words."""

    def embed(self, x, mask, **extra):
        return 2 * super().embed(x, mask, **extra)


class Louder(GateDemultiplexer):
    """Changes the vectors before they are mixed, without a prefix."""

    def add_prefix(self, x, mask):
        return 3 * x, mask


@pytest.mark.parametrize(
    ("backbone", "demux", "factor"), [(Doubled, GateDemultiplexer, 2), (TransformerBackbone, Louder, 3)]
)
def test_inference_uses_a_backbone_or_a_demultiplexer_of_ones_own(backbone, demux, factor):
    def mixture(backbone, demux, gradients):
        torch.manual_seed(0)
        model = Multiplexed(backbone(tiny_encoder()), build_multiplexer("sign", N, 24), demux(N, 24))
        rows = random_rows(2 * N)
        ids, mask = (rows[name].view(2, N, -1) for name in ("input_ids", "attention_mask"))
        with torch.set_grad_enabled(gradients):
            return model.mix_groups(ids, mask.bool())[0].detach()

    inference = mixture(backbone, demux, False)
    torch.testing.assert_close(inference, mixture(backbone, demux, True))
    torch.testing.assert_close(inference, factor * mixture(TransformerBackbone, GateDemultiplexer, False))


def test_a_multiplexer_must_say_how_it_mixes():
    class Silent(Multiplexer):
        pass

    model = Multiplexed(torch.nn.Identity(), Silent(N, 24), build_demultiplexer("key", N, 24))
    with pytest.raises(TypeError, match=r"Silent must define weights\(\) or mix\(\)"):
        model(torch.randn(N, 24))


@pytest.mark.parametrize(("name", "weighted"), [("identity", True), ("sign", True), ("ortho", False)])
def test_only_weights_alone_take_the_quick_path(name, weighted, monkeypatch):
    model = build(name, "gate")
    ids, used = random_rows(N)["input_ids"].unsqueeze(0), []
    definition = model.mux.embed_and_mix
    monkeypatch.setattr(model.mux, "embed_and_mix", lambda *given: used.append(1) or definition(*given))
    with torch.no_grad():
        model.mux.mix_groups(ids)
    assert bool(used) == (not weighted)


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
    """It adds nothing to the mixture. Only `index` has one more prefix position for it, between prefix and tokens."""
    model = build(mux, demux)
    rows = random_rows(2)
    small = model.encode(**rows, group_size=2)
    large = model.encode(**rows, group_size=3)
    more = model.mux.demultiplexer.prefix_length(3) - model.mux.demultiplexer.prefix_length(2)
    assert more == (1 if demux == "index" else 0)
    assert large.states.shape[1] == small.states.shape[1] + more

    def mixture(encoded):
        ids = encoded.grouping.group(rows["input_ids"])
        return model.mux.mix_groups(ids, encoded.token_mask)[0]

    found = mixture(large)
    found = torch.cat([found[:, : 2 * more], found[:, 3 * more :]], 1)  # without the prefix of the third slot
    torch.testing.assert_close(found, mixture(small), atol=1e-6, rtol=1e-5)
    if not more:
        torch.testing.assert_close(model.mux.answer(large), model.mux.answer(small), atol=1e-5, rtol=1e-4)


@pairs
@torch.no_grad()
def test_every_group_size_and_filler(mux, demux):
    """The first k rows are a group, so they get the answers that they get alone."""
    model = build(mux, demux)
    torch.nn.init.normal_(model.mux.head.out.weight)
    rows = random_rows(5)
    for k, filler in itertools.product(range(1, N + 1), ("nothing", "repeat")):
        logits = model(**rows, group_size=k, filler=filler).logits
        assert logits.shape == (5, 4)
        assert logits.isfinite().all()
        first = {name: x[:k] for name, x in rows.items()}
        alone = model(**first, group_size=k, filler=filler).logits
        torch.testing.assert_close(logits[:k], alone, atol=1e-5, rtol=1e-4)
        if filler == "nothing" and demux != "index":  # `index` has one more prefix position for an empty slot
            within_n = model(**first, group_size=N, filler=filler).logits
            torch.testing.assert_close(logits[:k], within_n, atol=1e-5, rtol=1e-4)
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
    model, rows = build(mux, demux, num_instances=1), random_rows(3)
    torch.nn.init.normal_(model.mux.head.out.weight)
    found = model(**rows).logits
    assert found.shape == (3, 4)
    alone = torch.cat([model(**{name: x[row : row + 1] for name, x in rows.items()}).logits for row in range(3)])
    torch.testing.assert_close(found, alone, atol=1e-5, rtol=1e-4)
    assert (found[0] - found[1]).abs().max() > 1e-3, "different rows have different answers"


@pairs
@torch.no_grad()
def test_token_labels_and_words_have_one_row_per_instance(mux, demux):
    rows = random_rows(N + 1)
    for task, classes in (("token-classification", 4), ("retrieval", 61)):
        model = build(mux, demux, task=task)
        found = model(**rows).logits
        assert found.shape == (N + 1, 7, classes)
        last = model(**{name: x[N:] for name, x in rows.items()}, group_size=N).logits
        torch.testing.assert_close(found[N:], last, atol=1e-5, rtol=1e-4)


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
