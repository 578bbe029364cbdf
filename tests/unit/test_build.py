"""From a recipe to a model: what cannot be built is refused."""

import pytest

from conftest import tiny_encoder
from datamux.train.build import build
from datamux.train.recipe import ModelSettings


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
