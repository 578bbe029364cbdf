"""Tiny encoders of every family, with random weights. All sizes differ, so that a swapped axis cannot pass."""

import json
import os
import socket
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
import transformers as tf
from huggingface_hub import constants

import datamux

VOCAB, HIDDEN = 61, 24
_SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": 50,
}
ENCODERS = {
    "bert": lambda: tf.BertConfig(**_SIZES),
    "roberta": lambda: tf.RobertaConfig(**_SIZES, type_vocab_size=1, pad_token_id=1),
    "xlm-roberta": lambda: tf.XLMRobertaConfig(**_SIZES, type_vocab_size=1, pad_token_id=1),
    "distilbert": lambda: tf.DistilBertConfig(
        vocab_size=VOCAB, dim=HIDDEN, n_layers=2, n_heads=2, hidden_dim=40, max_position_embeddings=50
    ),
    "electra": lambda: tf.ElectraConfig(**_SIZES, embedding_size=12),
    "albert": lambda: tf.AlbertConfig(**_SIZES, embedding_size=12),
    "modernbert": lambda: tf.ModernBertConfig(**_SIZES, pad_token_id=0, cls_token_id=2, sep_token_id=3),
    "mpnet": lambda: tf.MPNetConfig(**_SIZES),
    "deberta-v2": lambda: tf.DebertaV2Config(
        **_SIZES, relative_attention=True, pos_att_type=["p2c", "c2p"], type_vocab_size=2
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `data` run where DATAMUX_DATA names a folder; CI sets it where they lie beside the checkout."""
    if os.environ.get("DATAMUX_DATA"):
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="DATAMUX_DATA does not point at the data sets"))


def tiny_config(name: str = "bert") -> tf.PreTrainedConfig:
    return ENCODERS[name]()


def tiny_encoder(name: str = "bert", seed: int = 0) -> tf.PreTrainedModel:
    torch.manual_seed(seed)
    return tf.AutoModel.from_config(tiny_config(name)).eval()


def random_rows(rows: int, tokens: int = 7, seed: int = 0) -> dict[str, torch.Tensor]:
    """Ids and a right-padded mask; the lengths differ, and one row has no padding."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCAB, (rows, tokens), generator=generator)
    lengths = torch.randint(2, tokens + 1, (rows,), generator=generator)
    lengths[: min(rows, 1)] = tokens
    mask = (torch.arange(tokens) < lengths[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


@pytest.fixture(scope="session")
def tokenizer() -> tf.PreTrainedTokenizerBase:
    """A word-level BERT tokenizer made in memory."""
    words = (
        "[PAD] [UNK] [CLS] [SEP] [MASK] good bad film plot the a was is very not . anna lives in paris works at acme"
    )
    return tf.BertTokenizer(vocab={word: index for index, word in enumerate(words.split())})


def write_jsonl(folder: Path, name: str, rows: list[dict]) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text("\n".join(json.dumps(row) for row in rows))
    return folder / name


@pytest.fixture
def predictor(tmp_path, tokenizer):
    torch.manual_seed(1)
    model = datamux.multiplex(tiny_encoder(), 3, id2label={0: "neg", 1: "pos"})
    torch.nn.init.normal_(model.mux.head.out.weight)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return datamux.load(tmp_path / "model")


@pytest.fixture
def no_network(monkeypatch):
    """Online, but nothing answers: the Hub's address is a closed port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    return address


@pytest.fixture(scope="session")
def classifier(tmp_path_factory):
    """A tiny predictor of whole texts, for tests of the server; nobody changes it."""
    from serving import make_predictor  # it imports this file

    return make_predictor(tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="session")
def tagger(tmp_path_factory):
    """A tiny predictor of tags, for tests of the server; nobody changes it."""
    from serving import make_predictor

    return make_predictor(tmp_path_factory.mktemp("tagger"), "token")
