"""torch.export and torch.compile of the sequence model agree with eager, at other sizes than they were made with."""

import pytest
import torch

from conftest import random_rows, tiny_encoder
from datamux import multiplex


class LogitsOnly(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def build(demultiplexer):
    torch.manual_seed(0)
    return LogitsOnly(multiplex(tiny_encoder(), 3, num_labels=4, demultiplexer=demultiplexer)).eval()


SHAPES = [(6, 7), (9, 5), (12, 11)]


@torch.no_grad()
@pytest.mark.parametrize("demultiplexer", ["gate", "key", "index", "mlp"])
def test_export_has_dynamic_rows_and_length(demultiplexer):
    model = build(demultiplexer)
    groups, tokens = torch.export.Dim("groups", min=2, max=64), torch.export.Dim("tokens", min=2, max=40)
    shape = {0: 3 * groups, 1: tokens}  # whole groups: an exported graph has no branch for an incomplete one
    exported = torch.export.export(model, tuple(random_rows(6).values()), dynamic_shapes=(shape, shape)).module()
    for count, tokens in SHAPES:
        inputs = tuple(random_rows(count, tokens, seed=count).values())
        torch.testing.assert_close(exported(*inputs), model(*inputs), atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(
    ("demultiplexer", "backend"),
    [
        pytest.param("key", "aot_eager", marks=pytest.mark.slow),
        pytest.param("index", "aot_eager", marks=pytest.mark.slow),
        pytest.param("mlp", "aot_eager", marks=pytest.mark.slow),
        pytest.param("gate", "inductor", marks=pytest.mark.slow),
    ],
)
def test_compile_agrees(demultiplexer, backend):
    """In one graph, and for any number of rows; once with the real compiler, which takes half a minute."""
    model = build(demultiplexer)
    compiled = torch.compile(model, dynamic=True, fullgraph=True, backend=backend)
    for count, tokens in [*SHAPES, (7, 7)]:
        inputs = tuple(random_rows(count, tokens, seed=count).values())
        torch.testing.assert_close(compiled(*inputs), model(*inputs), atol=1e-5, rtol=1e-4)
