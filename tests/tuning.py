"""Rows and tiny encoders for tests of `datamux tune`, which then takes seconds instead of an hour."""

import json
import random
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertModel

from datamux.evaluate.frontier import Point
from datamux.evaluate.row_scores import find_metric
from datamux.tasks.labels import find_labels
from datamux.train.build import train_tokenizer
from datamux.tuning.state import FILE

GOOD, BAD = ["good", "fine", "great", "lovely", "warm"], ["bad", "poor", "dull", "cold", "awful"]
QUICK = {"budget": "20s", "engines": ["torch"]}


def reviews(count: int, seed: int = 0) -> list[dict]:
    """A word of each text decides."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        word = chance.choice(GOOD + BAD)
        label = "yes" if word in GOOD else "no"
        rows.append({"text": f"film {number} {seed} was {word} and {chance.choice(['long', 'old'])}", "label": label})
    return rows


def write_encoder(folder: Path, hidden: int = 32, layers: int = 4) -> str:
    """A random encoder with a tokenizer that knows the words of `reviews`."""
    words = [row["text"] for row in reviews(300)] + ["anna lives in paris", "bob works at acme", "red green blue"]
    tokenizer = train_tokenizer(words, 400, lowercase=True)
    torch.manual_seed(0)
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 2, "intermediate_size": 40}
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=40, **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def noted_in(folder: Path) -> dict:
    """Everything that the search has noted."""
    return json.loads((folder / FILE).read_text())


METRIC = find_metric(find_labels(["a", "b"]), tags=False)
ROWS = 1000


def point(name, wrong, ratio, group_size=1):
    """A measured model that has `wrong` of the rows wrong."""
    drop = 100 * (wrong - 100) / ROWS
    rates = {"rate": 50 * ratio, "ratio": ratio, "lowest": ratio, "highest": ratio}
    return Point(name, "torch", group_size, 1 - wrong / ROWS, drop, folder=name, **rates)


def numbers(wrong):
    """The numbers of its rows."""
    return np.stack([np.arange(ROWS) >= wrong, np.ones(ROWS)], axis=1).astype(float)
