"""For tests of the server: tiny predictors and an engine whose answers name their texts."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as tf

import datamux
from conftest import tiny_encoder
from datamux.inference.answers import label_answers, span_answers
from datamux.inference.predictor import Predictor
from datamux.serve.engine import Labels, Row
from datamux.serve.gears import Gear
from datamux.serve.service import Service
from datamux.serve.settings import Settings

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] good bad film plot the a was is very not . anna lives in paris works at acme"
TAGS = ["O", "B-PER", "I-PER", "B-LOC"]
QUICK = {"port": 0, "no_keys": True, "no_playground": True, "log_level": "error", "max_wait_ms": 1.0}


def make_predictor(folder: Path, task: str = "sequence", slots: int = 4, **config: object) -> Predictor:
    """A tiny model with random weights, saved and loaded."""
    torch.manual_seed(1)
    names = {"sequence": ["neg", "neutral", "pos"], "token": TAGS}[task]
    tokenizer = tf.BertTokenizer(vocab={word: index for index, word in enumerate(WORDS.split())})
    labels = {"id2label": dict(enumerate(names)), **config}
    model = datamux.multiplex(tiny_encoder(), slots, task=f"{task}-classification", **labels)
    torch.nn.init.normal_(model.mux.head.out.weight, std=3.0)
    for part in (model, tokenizer):
        part.save_pretrained(folder)
    return datamux.load(folder)


def own_answers(predictor: Predictor, texts: list) -> list:
    """What the predictor's model says about each text by itself."""
    window = predictor.texts.window(texts)
    found = []
    for number in range(len(texts)):
        logits = predictor.runtime.logits(window.rows.batch([number]), 1)
        if predictor.token_level:
            found += span_answers([window.texts[number]], [window.words[number]], logits, predictor.names)
        else:
            found += label_answers(logits, predictor.names, predictor.problem, len(predictor.names))
    return found


class NamingEngine:
    """Answers "NAME NUMBER" with the number as its score; remembers every group. Can fail, hang, or be slow."""

    def __init__(self) -> None:
        self.groups: list[tuple[list[str], Gear]] = []
        self.fail = 0
        self.seconds = 0.0
        self.hang = threading.Event()
        self.hang.set()

    def tokenise(self, texts: list) -> list[tuple[Row, int]]:
        return [(Row([0] * 5, None, text, None, False), 5) for text in texts]

    def answer(self, groups: list, gear: Gear) -> list:
        self.groups += [([row.text for row in group], gear) for group in groups]
        self.hang.wait(20)
        time.sleep(self.seconds)
        if self.fail:
            self.fail -= 1
            raise RuntimeError("out of memory")
        if any("poison" in row.text for group in groups for row in group):
            raise RuntimeError("this text breaks the model")
        return [[Labels([2, 1, 0], [_number(row.text), 0.0, 0.0], [0.0] * 3, 5, False) for row in g] for g in groups]


def _number(text: str) -> float:
    last = text.rpartition(" ")[2]
    return float(last) if last.isdigit() else 0.0


def make_service(predictor: Predictor, engine: object = None, card: dict | None = None, **settings: object) -> Service:
    return Service(predictor, name="tiny", card=card, settings=Settings(**QUICK | settings), engine=engine)


def eventually(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    """Wait until it is so; whether it ever was."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.005)
    return False


async def ask(app: Any, path: str, question: dict, leaves: asyncio.Event) -> list:
    """Ask a route as uvicorn does, as a client who is gone as soon as `leaves` is set; returns what was sent to it."""
    messages = [{"type": "http.request", "body": json.dumps(question).encode()}]
    sent: list = []

    async def receive() -> dict:
        if messages:
            return messages.pop()
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    await app(scope, receive, send)
    return sent
