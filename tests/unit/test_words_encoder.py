"""Words and word pairs without any layer: padding changes nothing, order does, and it is saved, loaded and trained."""

import pytest
import torch

from datamux.hub import MuxConfig
from datamux.hub.loading import load_model
from datamux.hub.models import MODEL_CLASSES
from datamux.hub.words import WordsConfig


@pytest.fixture
def model():
    torch.manual_seed(0)
    words = WordsConfig(vocab_size=50, hidden_size=8, pair_rows=32)
    plain = {"multiplexer": "identity", "multiplexer_options": {}, "demultiplexer": "identity", "num_instances": 1}
    found = MODEL_CLASSES["sequence-classification"](MuxConfig(backbone_config=words.to_dict(), **plain)).eval()
    torch.nn.init.normal_(found.get_input_embeddings().pairs)
    return found


@torch.no_grad()
def test_padding_changes_nothing_and_order_does(model):
    ids = torch.tensor([[5, 6, 7, 8]])
    padded, mask = torch.nn.functional.pad(ids, (0, 3)), torch.tensor([[1, 1, 1, 1, 0, 0, 0]])
    alone = model(input_ids=ids).logits
    torch.testing.assert_close(model(input_ids=padded, attention_mask=mask).logits, alone)
    assert not torch.allclose(model(input_ids=ids.flip(1)).logits, alone, atol=1e-4), "pairs know the order"


@torch.no_grad()
def test_saved_and_loaded(model, tmp_path):
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path)
    ids = torch.randint(5, 50, (3, 6))
    torch.testing.assert_close(again(input_ids=ids).logits, model(input_ids=ids).logits)
    assert again.get_input_embeddings().pair_rows == 32


def test_pairs_learn(model):
    """Two texts with the same words in another order get different labels, which words by themselves cannot do."""
    ids, labels = torch.tensor([[5, 6, 7], [7, 6, 5]]), torch.tensor([0, 1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert loss.item() < 0.05
