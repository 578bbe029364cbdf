"""How many groups fit into a pass: fewer, the more the parts of a model keep in memory. Mixing keeps little."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from datamux.demultiplexers import DEMULTIPLEXERS, Demultiplexer
from datamux.evaluate.contenders import Shape
from datamux.evaluate.workloads import random_rows
from datamux.inference.pass_memory import memory_of_exported
from datamux.inference.runtime import TorchRuntime, groups_that_fit

SIZES = {"layers": 2, "hidden": 24, "heads": 2, "vocab_size": 61}
K, TOKENS = 12, 20


def fitting(k=K, *, token_level=False, **options):
    runtime = TorchRuntime(Shape(**SIZES, token_level=token_level).multiplexed(K, **options))
    return groups_that_fit(runtime, TOKENS, k, positions=10**9, memory=1 << 24)


def test_layers_that_every_instance_runs_alone_are_counted():
    assert fitting(mux_layer=1) < fitting() / 5
    assert fitting(k=2, mux_layer=1) > 4 * fitting(mux_layer=1)


@pytest.mark.parametrize("demultiplexer", ["key", "index", "mlp"])
def test_activations_of_every_slot_at_every_token_are_counted(demultiplexer):
    every = fitting(demultiplexer=demultiplexer, pooling="mean")
    assert every < 0.7 * fitting(), "gate pools before anything is done a slot"
    assert every < 0.9 * fitting(demultiplexer=demultiplexer, pooling="first"), "one position is read"
    wide = fitting(demultiplexer=demultiplexer, pooling="mean", demultiplexer_options={"hidden_dim": 480})
    assert wide < every / 4


def test_a_tagger_takes_every_position_apart():
    assert fitting(token_level=True) < 0.7 * fitting()
    assert fitting(token_level=True, head_context=2) < 0.8 * fitting(token_level=True)


class WideDemultiplexer(Demultiplexer):
    """A new method: ten times as wide as the encoder, with another gate for each slot."""

    def __init__(self, num_instances, dim, *, embedding_dim=None, seed=0):
        super().__init__(num_instances, dim, embedding_dim=embedding_dim, seed=seed)
        self.into = torch.nn.Linear(dim, 10 * dim)
        self.out = torch.nn.Linear(10 * dim, dim)
        self._register_state(learned=True)

    def initial_state(self):
        return {"gates": torch.ones(self.num_instances, 10 * self.dim)}

    def activations(self, h, prefix, slots):
        return self.into(h).unsqueeze(1) * self.gates[:slots, None]

    def project(self, a):
        return self.out(a)


@pytest.fixture
def with_new_method(monkeypatch):
    monkeypatch.setitem(DEMULTIPLEXERS, "wide", WideDemultiplexer)


def estimate(**options):
    """Bytes of one group, and the model that they are estimated for."""
    runtime = TorchRuntime(Shape(**SIZES).multiplexed(K, **options))
    return runtime.bytes_per_group(TOKENS, K), runtime.model


@pytest.mark.usefixtures("with_new_method")
def test_a_new_demultiplexer_is_estimated_by_its_own_width():
    wide, _ = estimate(demultiplexer="wide", pooling="mean")
    known, _ = estimate(demultiplexer="key", pooling="mean", demultiplexer_options={"hidden_dim": 10 * SIZES["hidden"]})
    assert wide == known, "both hold activations of the same width for every slot at every token"
    assert estimate(demultiplexer="wide", pooling="first")[0] < wide / 5, "only one position is read"


@pytest.mark.usefixtures("with_new_method")
@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("demultiplexer", [*DEMULTIPLEXERS, "wide"])
def test_every_estimate_is_near_the_largest_tensor_of_a_pass(demultiplexer, pooling):
    """A pass holds a few tensors at once, so the estimate may be a few times the largest of them, but never less."""
    estimated, model = estimate(demultiplexer=demultiplexer, pooling=pooling)
    groups = 5
    batch = random_rows([TOKENS] * (groups * K - 1) + [3], 61).batch(range(groups * K))  # one is padded
    with torch.no_grad(), Largest() as largest:  # inference mode would hide what a matrix product copies
        model(**batch, group_size=K)
    assert 4 * largest.numbers / groups <= estimated <= 8 * 4 * largest.numbers / groups


@pytest.mark.usefixtures("with_new_method")
@pytest.mark.parametrize("demultiplexer", [*DEMULTIPLEXERS, "wide"])
def test_an_exported_model_is_estimated_from_its_configuration(demultiplexer):
    estimated, model = estimate(demultiplexer=demultiplexer)
    exported = memory_of_exported(model.config, token_level=False)
    assert exported.bytes_per_group(TOKENS, K) == estimated
    assert exported.demultiplexer.activation_width == model.mux.demultiplexer.activation_width


class Largest(TorchDispatchMode):
    """Notes how many numbers the largest tensor has that any operation makes."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.is_floating_point():
                self.numbers = max(self.numbers, x.untyped_storage().nbytes() // x.element_size())
        return out


def test_mixing_never_holds_the_vectors_of_all_instances():
    """(b n l d) would be more than anything else here: the widest layer is 4 d, and there are twelve slots."""
    groups, hidden = 30, SIZES["hidden"]
    runtime = TorchRuntime(Shape(**SIZES).multiplexed(K, multiplexer="sign"))
    batch = random_rows([TOKENS] * (groups * K), 61).batch(range(groups * K))
    with Largest() as largest:
        runtime.logits(batch, K)
    assert groups * TOKENS * 4 * hidden <= largest.numbers < groups * K * TOKENS * hidden / 2


def test_nothing_is_masked_where_nothing_is_padded():
    runtime = TorchRuntime(Shape(**SIZES).multiplexed(3))
    seen = []
    runtime.model.register_forward_pre_hook(lambda model, given, named: seen.append(dict(named)), with_kwargs=True)
    full, padded = random_rows([5] * 6, 61), random_rows([5, 5, 4, 5, 5, 5], 61)
    whole = runtime.logits(full.batch(range(6)), 3)
    runtime.logits(padded.batch(range(6)), 3)
    assert "attention_mask" not in seen[0]
    assert "attention_mask" in seen[1]
    masked = runtime.model(**full.batch(range(6)), group_size=3).logits
    torch.testing.assert_close(whole, masked, atol=1e-5, rtol=1e-4)
