"""ONNX and OpenVINO files agree with eager: every demultiplexer, both heads, layers below the mixture."""

import pytest
import torch

from conftest import tiny_encoder
from datamux import multiplex
from datamux.inference.export import compare, write_exported
from datamux.inference.exported import load_exported
from datamux.inference.runtime import TorchRuntime
from datamux.inference.texts import Texts

SLOW = pytest.mark.slow
SENTENCES, TOKENS = "sequence-classification", "token-classification"
CASES = [
    ("onnx", TOKENS, {"head_context": 1}),
    pytest.param("openvino", SENTENCES, {}, marks=SLOW),
    ("onnx", SENTENCES, {"mux_layer": 1}),
    pytest.param("openvino", TOKENS, {}, marks=SLOW),
    pytest.param("onnx", SENTENCES, {"demultiplexer": "key"}, marks=SLOW),
    pytest.param("onnx", SENTENCES, {"demultiplexer": "index"}, marks=SLOW),
    pytest.param("onnx", SENTENCES, {"demultiplexer": "mlp"}, marks=SLOW),
]


@pytest.mark.parametrize(("to", "task", "options"), CASES)
def test_an_exported_file_agrees(tmp_path, tokenizer, to, task, options):
    torch.manual_seed(0)
    model = multiplex(tiny_encoder(), 3, task=task, num_labels=4, **options)
    for parameter in model.mux.head.parameters():
        torch.nn.init.normal_(parameter)  # logits that differ from text to text
    eager = TorchRuntime(model)
    card = write_exported(eager, tmp_path, to, int8=False)
    assert card["token_level"] == (task == TOKENS)
    exported = load_exported(tmp_path, model.config)
    texts = Texts(tokenizer, 40, token_level=task == TOKENS)
    for parity in compare(eager, exported, texts, more=["good film", "the plot was very bad ."]):
        assert parity.largest_difference < 1e-3
        assert parity.equal_answers == 1.0
