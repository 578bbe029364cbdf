"""The cost of a text in layers, against formulas for the number of products."""

import pytest

from datamux.reproduce.multiplications import layers_per_text
from datamux.train.recipe import load_recipe

D, LAYERS, N = 24, 4, 2
GATE = "{hidden_dim = 96, linear = true}"


def cost(name: str, kind: str, **settings) -> float:
    overrides = [f"model.num_instances={N}", *(f"model.{key}={value}" for key, value in settings.items())]
    recipe = {"model": load_recipe(f"small/{name}", overrides).as_dict()["model"]}
    return layers_per_text({"recipe": recipe, "encoder": {"layers": LAYERS, "hidden": D, "heads": 2}}, kind)


@pytest.mark.parametrize(("kind", "last"), [("sequence", 0), ("token", 3)])
def test_reversible_adapters_cost_about_a_layer_per_text(kind, last):
    """Reducing d^2 / n; twice two matrices of d^2 / n; then d/n -> 3d -> 3d, and for taggers -> d at every token."""
    adapters = 1 / N + 2 * 2 / N + 3 / N + 9 + last
    expected = 2 + (LAYERS - 2) / N + adapters / 12
    assert cost("revmux", kind) == pytest.approx(expected, abs=0.05)  # abs: what runs once per text, not per token


def test_updates_and_their_demultiplexer():
    """Rank 4: four matrices d -> d, one d -> 4d and one 4d -> d. The hidden layer of the gate runs once per group."""
    updates = 4 * (4 * 2 + 2 * 5) / D
    expected = 2 + ((LAYERS - 2) * (1 + updates / 12) + 4 / 12) / N
    found = cost("low-rank", "sequence", low_rank=4, demultiplexer_options=GATE)
    assert found == pytest.approx(expected, abs=0.05)


def test_words_that_are_mixed_run_every_layer_once_per_group():
    found = cost("mimo", "sequence", demultiplexer_options=GATE)
    assert found == pytest.approx((LAYERS + 4 / 12) / N, abs=0.05)
