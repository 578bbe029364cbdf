"""Heads: what they read and how far they see."""

import torch
from torch.nn import functional as F

from conftest import random_rows, tiny_encoder
from datamux import MuxForTokenClassification, multiplex
from datamux.heads import TokenHead


def test_a_head_with_context_is_a_convolution_over_neighbours():
    torch.manual_seed(0)
    head = TokenHead(12, 3, context=2).eval()
    torch.nn.init.normal_(head.near)
    z = torch.randn(2, 4, 9, 12)
    a = F.gelu(head.dense(z))
    kernel = head.near.T.unsqueeze(1)  # d 1 w
    near = F.conv1d(a.flatten(0, 1).transpose(1, 2), kernel, padding=2, groups=12).transpose(1, 2).view_as(a)
    torch.testing.assert_close(head(z), head.out(a + F.gelu(head.second(near))))


def test_a_head_sees_no_further_than_its_context():
    torch.manual_seed(0)
    z = torch.randn(1, 2, 9, 12)
    changed = z.clone()
    changed[0, 1, 4] += 1
    for context in (0, 1, 2):
        head = TokenHead(12, 3, context=context).eval()
        differs = (head(z) != head(changed)).any(-1)  # b n l
        assert not differs[0, 0].any(), "another instance"
        assert differs[0, 1].nonzero().flatten().tolist() == list(range(4 - context, 5 + context))


def test_a_tagger_with_context_is_saved_and_loaded(tmp_path):
    model = multiplex(tiny_encoder(), 3, task="token-classification", num_labels=4, head_context=1)
    torch.nn.init.normal_(model.mux.head.near)
    model.save_pretrained(tmp_path)
    again = MuxForTokenClassification.from_pretrained(tmp_path).eval()
    rows = random_rows(5)
    torch.testing.assert_close(again(**rows).logits, model(**rows).logits)
